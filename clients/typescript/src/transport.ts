import { CauserieError, ConnectionFailedError, refused, ResponseFormError, StatusError } from "./errors.js";
import { afterBreak, afterStatus, pause, type Retries } from "./retries.js";

/** What every call takes. */
export interface CallOptions {
  /** Aborts the call, and its retries. */
  signal?: AbortSignal | undefined;
}

export interface Call extends CallOptions {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  json?: unknown;
  form?: FormData;
  /** For so many seconds the service may hold the response, as it was asked to. */
  held?: number;
  /** It may be sent again when its response was lost. */
  repeatable?: boolean;
}

/** Of calls, in seconds, besides the time for which the service was asked to hold the response. */
export const TIMEOUT = 90;

/** Sends calls with a key, and repeats them. */
export class Transport {
  /** Ends the listening to a caller's signal, which may outlive many responses. */
  readonly #releases = new WeakMap<Response, () => void>();

  constructor(
    readonly retries: Retries,
    private readonly timeout: number,
    private readonly base: string,
    private readonly headers: Record<string, string>,
    private readonly fetch: typeof globalThis.fetch,
  ) {}

  /** Sends a call and reads its response as JSON. */
  async json<T>(call: Call): Promise<T> {
    return this.read(call, async (response) => {
      try {
        return (await response.json()) as T;
      } catch (cause) {
        if (cause instanceof SyntaxError) throw new ResponseFormError("the response is not JSON", { cause });
        throw cause;
      }
    });
  }

  /** Sends a call whose response has no body. */
  async nothing(call: Call): Promise<void> {
    await this.read(call, async (response) => response.body?.cancel());
  }

  /** Sends a call; `use` reads its response. */
  async read<T>(call: Call, use: (response: Response) => Promise<T>): Promise<T> {
    const response = await this.send(call);
    try {
      return await use(response);
    } catch (cause) {
      call.signal?.throwIfAborted();
      if (cause instanceof CauserieError) throw cause;
      throw new ConnectionFailedError("the response broke off", { cause });
    } finally {
      this.release(response);
    }
  }

  /** Lets go of the signal of a response whose body was read. */
  release(response: Response): void {
    this.#releases.get(response)?.();
  }

  /** Sends a call, again if need be; the body of the response can be read within no time limit. */
  async send(call: Call): Promise<Response> {
    const repeatable = call.repeatable ?? true;
    for (let attempt = 1; ; attempt += 1) {
      let wait: number | undefined;
      try {
        return await this.once(call, this.timeout + (call.held ?? 0));
      } catch (error) {
        call.signal?.throwIfAborted();
        if (error instanceof StatusError) wait = afterStatus(this.retries, error, attempt, repeatable);
        else if (error instanceof ConnectionFailedError) wait = afterBreak(this.retries, attempt, repeatable);
        if (wait === undefined) throw error;
      }
      await pause(wait, call.signal);
    }
  }

  /** Sends a call once, and waits for the head of its response for `timeout` seconds. */
  async once(call: Call, timeout: number): Promise<Response> {
    const query = call.query && Object.keys(call.query).length > 0 ? `?${new URLSearchParams(call.query)}` : "";
    const headers: Record<string, string> = { ...this.headers, ...call.headers };
    if (call.json !== undefined) headers["content-type"] = "application/json";
    const abort = new AbortController();
    const aborted = () => abort.abort(call.signal?.reason);
    const release = () => call.signal?.removeEventListener("abort", aborted);
    call.signal?.throwIfAborted();
    call.signal?.addEventListener("abort", aborted, { once: true });
    const late = () => abort.abort(new Error(`no response within ${timeout} seconds`));
    // A large upload takes as long as it takes.
    const timer = call.form ? undefined : setTimeout(late, timeout * 1000);
    let response: Response;
    try {
      response = await this.fetch(this.base + call.path + query, {
        method: call.method,
        headers,
        signal: abort.signal,
        // A redirect must not send the key to another host, nor turn a question into a GET.
        redirect: "manual",
        ...(call.form ? { body: call.form } : {}),
        ...(call.json !== undefined ? { body: JSON.stringify(call.json) } : {}),
      });
    } catch (cause) {
      release();
      call.signal?.throwIfAborted();
      throw new ConnectionFailedError("the service cannot be reached", { cause });
    } finally {
      clearTimeout(timer);
    }
    if (response.ok) {
      this.#releases.set(response, release);
      return response;
    }
    try {
      throw await refused(response);
    } finally {
      release();
    }
  }
}
