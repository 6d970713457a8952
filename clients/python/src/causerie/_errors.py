"""What can go wrong. Every error of this package is a `CauserieError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._types import Answer


class CauserieError(Exception):
    """Any error of this package."""


class ConnectionFailedError(CauserieError):
    """The service could not be reached, or the connection broke, also after the permitted retries."""


class ResponseFormError(CauserieError):
    """A response is not of the form that the interface promises, for instance from a proxy."""


class TextRevisedError(CauserieError):
    """An iterator of text cannot continue: the model's stream broke, and the repeated step says something else than
    the pieces that were handed out. `answer` has the whole text."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("the answer's text was revised after a part of it was handed out")
        self.answer = answer


class StatusError(CauserieError):
    """The service refused a call. `code` is for programs (codes may be added), `message` for people."""

    def __init__(
        self, status: int, code: str | None, message: str, request_id: str | None, retry_after: float | None
    ) -> None:
        super().__init__(f"{message} ({status}{' ' + code if code else ''})")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after
        """After how many seconds to try again, if the service says so."""


class BadRequestError(StatusError):
    """400, and other 4xx without a class of their own: the request must be changed."""


class AuthenticationError(StatusError):
    """401: the key is missing, mistyped, revoked or expired."""


class PermissionDeniedError(StatusError):
    """403: the key's scope does not hold the call, or the path leads out of the workspace."""


class NotFoundError(StatusError):
    """404: it does not exist, or is another account's."""


class ConflictError(StatusError):
    """409: the state of the account does not permit it now; `code` says which."""


class RateLimitError(StatusError):
    """429: too many requests; `retry_after` says how long to wait."""


class ServerError(StatusError):
    """5xx: the service failed or is not available."""


_BY_STATUS: dict[int, type[StatusError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitError,
}


def status_error(
    status: int, code: str | None, message: str, request_id: str | None, retry_after: float | None
) -> StatusError:
    """Returns the error of a status."""
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, BadRequestError)
    return kind(status, code, message, request_id, retry_after)
