import { ConnectionFailedError, ResponseFormError, StatusError, TextRevisedError } from "./errors.js";
import { FrameDecoder, type Frame } from "./frames.js";
import { afterBreak, afterStatus, pause } from "./retries.js";
import type { CallOptions, Transport } from "./transport.js";
import type { Answer, AnswerEvent } from "./types.js";

/** The longest silence of a stream, in seconds: the service sends a comment every ten. */
const SILENCE = 45;

export interface StreamOptions extends CallOptions {
  /** Names the state after which the stream begins: `id` of an event, or `lastEventId` of a stream. */
  lastEventId?: string | undefined;
}

/** The events of an answer or of a conversation. A broken connection is resumed after the last event. It can be iterated
 * once; leaving the loop closes it. */
export class EventStream implements AsyncIterable<AnswerEvent> {
  /** The newest state that was read. */
  answer: Answer | undefined;
  /** Names the newest state; a later stream resumes after it. */
  lastEventId: string | undefined;
  readonly #events: AsyncGenerator<AnswerEvent>;
  #isOver = false;
  #failures = 0;

  constructor(
    private readonly transport: Transport,
    private readonly path: string,
    private readonly ends: boolean,
    private readonly options: StreamOptions = {},
  ) {
    this.lastEventId = options.lastEventId;
    this.#events = this.#read();
  }

  [Symbol.asyncIterator](): AsyncGenerator<AnswerEvent> {
    return this.#events;
  }

  /** The same as a stream of the platform. */
  toReadableStream(): ReadableStream<AnswerEvent> {
    const events = this.#events;
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await events.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await events.return(undefined);
      },
    });
  }

  async *#read(): AsyncGenerator<AnswerEvent> {
    while (!this.#isOver) {
      const frames = new FrameDecoder();
      let cause: unknown;
      try {
        yield* this.#connection(frames);
      } catch (error) {
        this.options.signal?.throwIfAborted();
        const passing =
          error instanceof ConnectionFailedError ||
          (error instanceof StatusError && afterStatus(this.transport.retries, error, 1, true) !== undefined);
        if (!passing) throw error;
        if (error instanceof StatusError) frames.retrySeconds = error.retryAfter;
        cause = error;
      }
      if (!this.#isOver) await this.#waitAfterBreak(cause, frames);
    }
  }

  async *#connection(frames: FrameDecoder): AsyncGenerator<AnswerEvent> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (this.lastEventId) headers["last-event-id"] = this.lastEventId;
    const { signal } = this.options;
    const response = await this.transport.once({ method: "GET", path: this.path, headers, signal }, SILENCE);
    if (response.status === 204 || !response.body) {
      this.transport.release(response);
      // The answer is complete, and was maybe read to its end by an earlier stream.
      if (this.ends && this.answer?.status !== "completed") yield await this.#collected();
      this.#isOver = true;
      return;
    }
    const reader = response.body.getReader();
    try {
      while (!this.#isOver) {
        const chunk = await next(reader);
        if (chunk === undefined) return;
        for (const frame of frames.feed(chunk)) {
          const event = this.#accept(frame);
          if (event) yield event;
        }
      }
    } finally {
      await reader.cancel().catch(() => undefined);
      this.transport.release(response);
    }
  }

  async #collected(): Promise<AnswerEvent> {
    const { signal } = this.options;
    const answer: Answer = await this.transport.json({ method: "GET", path: this.path.replace(/\/events$/, ""), signal });
    this.answer = answer;
    return { event: "completed", answer, id: this.lastEventId ?? "" };
  }

  #accept(frame: Frame): AnswerEvent | undefined {
    const { event } = frame;
    if (event !== "message" && event !== "completed") return undefined;
    let answer: Answer;
    try {
      answer = JSON.parse(frame.data) as Answer;
    } catch (cause) {
      throw new ResponseFormError("an event is not JSON", { cause });
    }
    this.answer = answer;
    this.lastEventId = frame.id || this.lastEventId;
    this.#isOver = this.ends && event === "completed";
    return { event, answer, id: frame.id };
  }

  async #waitAfterBreak(cause: unknown, { lived, retrySeconds = 0 }: FrameDecoder): Promise<void> {
    this.#failures = lived ? 1 : this.#failures + 1;
    const wait = afterBreak(this.transport.retries, this.#failures, true);
    if (wait === undefined) {
      throw new ConnectionFailedError(`the stream broke ${this.#failures} times in a row`, { cause });
    }
    await pause(Math.max(wait, retrySeconds), this.options.signal);
  }
}

/** The stream of one answer, which ends when it is completed. */
export class AnswerStream extends EventStream {
  constructor(transport: Transport, path: string, options?: StreamOptions) {
    super(transport, path, true, options);
  }

  /** Iterates over the text as it grows, in pieces whose concatenation is the text. A model's step that broke is repeated,
   * and the text then grows anew: no piece comes until it has caught up. Throws `TextRevisedError` if it ends otherwise. */
  async *text(): AsyncGenerator<string> {
    let given = "";
    for await (const { answer } of this) {
      // White space at the end may not last.
      const text = answer.status === "completed" ? answer.text : answer.text.trimEnd();
      if (text.startsWith(given)) {
        const piece = text.slice(given.length);
        given = text;
        if (piece) yield piece;
      } else if (answer.status === "completed") {
        throw new TextRevisedError(answer);
      }
    }
  }

  /** Reads to the end and returns the completed answer. */
  async untilDone(): Promise<Answer> {
    for await (const _ of this);
    if (!this.answer) throw new ResponseFormError("the stream ended without an event");
    return this.answer;
  }
}

/** Reads a chunk, within the longest silence; `undefined` at the end. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${SILENCE} seconds`)), SILENCE * 1000);
  });
  try {
    const { done, value } = await Promise.race([reader.read(), silence]);
    return done ? undefined : value;
  } catch (cause) {
    throw new ConnectionFailedError("the stream broke", { cause });
  } finally {
    clearTimeout(timer);
  }
}
