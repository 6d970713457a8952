import { ResponseFormError } from "./errors.js";

/** The longest frame in characters: enough for an answer of several megabytes with all its parts. */
const FRAME_MAX = 64 << 20;

export interface Frame {
  event: string;
  data: string;
  id: string;
}

/** Makes frames of Server-Sent Events of bytes, however they are cut. */
export class FrameDecoder {
  #decoder = new TextDecoder();
  #held = "";
  #searched = 0;
  retrySeconds: number | undefined;
  /** An event or a comment has come. The service sends a comment every ten seconds, so a connection without either has
   * failed. */
  lived = false;

  /** Takes a chunk and returns the frames that it completes. */
  *feed(chunk: Uint8Array): Generator<Frame> {
    const text = this.#decoder.decode(chunk, { stream: true });
    const returns = text.includes("\r") || this.#held.endsWith("\r");
    this.#held += text;
    if (returns) {
      this.#held = this.#held.replaceAll("\r\n", "\n");
      this.#searched = 0;
    }
    for (;;) {
      const end = this.#held.indexOf("\n\n", Math.max(0, this.#searched - 1));
      if (end < 0) break;
      const frame = this.#read(this.#held.slice(0, end));
      this.#held = this.#held.slice(end + 2);
      this.#searched = 0;
      if (!frame.data) continue;
      this.lived = true;
      yield frame;
    }
    this.#searched = this.#held.length;
    if (this.#searched > FRAME_MAX) throw new ResponseFormError(`an event is longer than ${FRAME_MAX} characters`);
  }

  #read(text: string): Frame {
    const frame: Frame = { event: "", data: "", id: "" };
    for (const line of text.split("\n")) {
      const colon = line.indexOf(":");
      if (colon === 0) this.lived = true;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") frame.event = value;
      else if (field === "data") frame.data = frame.data ? `${frame.data}\n${value}` : value;
      else if (field === "id") frame.id = value;
      else if (field === "retry" && /^\d+$/.test(value)) this.retrySeconds = Number(value) / 1000;
    }
    return frame;
  }
}
