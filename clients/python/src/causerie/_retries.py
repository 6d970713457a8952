"""When a call is sent again, and how its response is read. Does no I/O."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from ._errors import CauserieError, ResponseFormError, StatusError, status_error

_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_NOT_ACCEPTED = frozenset({429, 503})
"""Statuses of requests that the service did not begin to work on."""


@dataclass(frozen=True)
class Retries:
    """How often a call is sent again that failed in a passing way, and how long to wait in between, in seconds.
    A wait that the service asks for (`Retry-After`) is kept; one above `longest_wait` raises the error instead."""

    most: int = 4
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def after_status(self, error: StatusError, attempt: int, repeatable: bool) -> float | None:
        """Returns how long to wait before attempt `attempt + 1`, or `None` to give up. Attempts count from 1."""
        passing = error.status in (_PASSING if repeatable else _NOT_ACCEPTED)
        if not passing or attempt > self.most:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        return self.wait(attempt)

    def after_break(self, attempt: int, repeatable: bool, connected: bool) -> float | None:
        """The same after a connection that broke, or that was not made."""
        if attempt > self.most or (connected and not repeatable):
            return None
        return self.wait(attempt)

    def wait(self, attempt: int) -> float:
        """Returns a wait that doubles with each attempt, with a jitter of a quarter."""
        longest = min(self.first_wait * 2.0 ** min(attempt - 1, 30), self.longest_wait)
        return longest * random.uniform(0.75, 1.0)


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> CauserieError:
    """Reads the response of a call that was refused."""
    if 300 <= status < 400:
        return ResponseFormError(f"the base URL redirects ({status}): give the URL that it leads to")
    code: str | None = None
    message = "the key is missing, mistyped, revoked or expired" if status == 401 else "the service refused the call"
    try:
        told = json.loads(body)
        code, message = str(told["code"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        pass
    return status_error(status, code, message, headers.get("x-request-id"), retry_after(headers.get("retry-after")))


def retry_after(text: str | None) -> float | None:
    """Reads a `Retry-After`: seconds, or a date."""
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, TypeError):
        return None


def read_json(body: bytes) -> Any:
    """Reads a body that must be JSON."""
    try:
        return json.loads(body) if body else None
    except ValueError as error:
        raise ResponseFormError(f"the response is not JSON: {error}") from error
