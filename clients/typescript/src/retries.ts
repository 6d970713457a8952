import type { StatusError } from "./errors.js";

/** How often a call is sent again that failed in a passing way, and how long to wait in between, in seconds. A wait that
 * the service asks for (`Retry-After`) is kept; if it is longer than `longestWait`, the error is thrown instead. */
export interface Retries {
  most: number;
  firstWait: number;
  longestWait: number;
}

export const RETRIES: Retries = { most: 4, firstWait: 0.5, longestWait: 60 };

const PASSING = new Set([408, 429, 500, 502, 503, 504]);
/** Statuses of requests that the service did not begin to work on. */
const NOT_ACCEPTED = new Set([429, 503]);

/** Returns how long to wait before attempt `attempt + 1`, in seconds; `undefined` to give up. Attempts count from 1. */
export function afterStatus(retries: Retries, error: StatusError, attempt: number, repeatable: boolean) {
  const passing = (repeatable ? PASSING : NOT_ACCEPTED).has(error.status);
  if (!passing || attempt > retries.most) return undefined;
  if (error.retryAfter === undefined) return waitOf(retries, attempt);
  return error.retryAfter <= retries.longestWait ? error.retryAfter : undefined;
}

/** The same after a connection that broke, or that was not made. */
export function afterBreak(retries: Retries, attempt: number, repeatable: boolean) {
  return repeatable && attempt <= retries.most ? waitOf(retries, attempt) : undefined;
}

/** Returns a wait that doubles with each attempt, with a jitter of a quarter. */
function waitOf(retries: Retries, attempt: number): number {
  const longest = Math.min(retries.firstWait * 2 ** (attempt - 1), retries.longestWait);
  return longest * (0.75 + Math.random() / 4);
}

/** Waits, unless the signal aborts it. */
export async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(done, seconds * 1000);
    function done() {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }
    function aborted() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
