import type { Answer, ErrorCode } from "./types.js";

/** Any error of this package. */
export class CauserieError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service could not be reached, or the connection broke, also after the permitted retries. */
export class ConnectionFailedError extends CauserieError {}

/** A response is not of the form that the interface promises, for instance from a proxy. */
export class ResponseFormError extends CauserieError {}

/** An iterator of text cannot continue: the model's stream broke, and the repeated step says something else than the
 * pieces that were handed out. `answer` has the whole text. */
export class TextRevisedError extends CauserieError {
  constructor(readonly answer: Answer) {
    super("the answer's text was revised after a part of it was handed out");
  }
}

/** What the service says when it refuses a call. */
export interface Refusal {
  status: number;
  /** For programs; absent from 401, and from responses of proxies. */
  code: ErrorCode | undefined;
  message: string;
  requestId: string | undefined;
  /** After how many seconds to try again, if the service says so. */
  retryAfter: number | undefined;
}

/** The service refused a call. */
export class StatusError extends CauserieError implements Refusal {
  readonly status: number;
  readonly code: ErrorCode | undefined;
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.status = refusal.status;
    this.code = refusal.code;
    this.requestId = refusal.requestId;
    this.retryAfter = refusal.retryAfter;
  }
}

/** 400, and other 4xx without a class of their own: the request must be changed. */
export class BadRequestError extends StatusError {}
/** 401: the key is missing, mistyped, revoked or expired. */
export class AuthenticationError extends StatusError {}
/** 403: the key's scope does not hold the call, or the path leads out of the workspace. */
export class PermissionDeniedError extends StatusError {}
/** 404: it does not exist, or is another account's. */
export class NotFoundError extends StatusError {}
/** 409: the state of the account does not permit it now; `code` says which. */
export class ConflictError extends StatusError {}
/** 429: too many requests; `retryAfter` says how long to wait. */
export class RateLimitError extends StatusError {}
/** 5xx: the service failed or is not available. */
export class ServerError extends StatusError {}

const BY_STATUS = new Map<number, new (refusal: Refusal) => StatusError>([
  [401, AuthenticationError],
  [403, PermissionDeniedError],
  [404, NotFoundError],
  [409, ConflictError],
  [429, RateLimitError],
]);

/** Reads the response of a call that was refused. */
export async function refused(response: Response): Promise<CauserieError> {
  const { status, headers } = response;
  // Browsers hide the status of a redirect that is not followed.
  if (response.type === "opaqueredirect" || (status >= 300 && status < 400)) {
    await response.body?.cancel();
    return new ResponseFormError("the base URL redirects: give the URL that it leads to");
  }
  const body: unknown = await response.json().catch(() => undefined);
  const told = (typeof body === "object" && body !== null ? body : {}) as { code?: unknown; message?: unknown };
  const unspoken = status === 401 ? "the key is missing, mistyped, revoked or expired" : "the service refused the call";
  const kind = status >= 500 ? ServerError : (BY_STATUS.get(status) ?? BadRequestError);
  return new kind({
    status,
    code: typeof told.code === "string" ? told.code : undefined,
    message: typeof told.message === "string" ? told.message : unspoken,
    requestId: headers.get("x-request-id") ?? undefined,
    retryAfter: retryAfter(headers.get("retry-after")),
  });
}

/** Reads a `Retry-After`: seconds, or a date. */
function retryAfter(text: string | null): number | undefined {
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
