"""Reads streams of events, without I/O: frames, resumption, and the pieces of a text that grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ._decode import decode
from ._errors import ConnectionFailedError, ResponseFormError, TextRevisedError
from ._retries import Retries
from ._types import Answer, StreamEvent

_FRAME_MAX_BYTES = 64 << 20
"""The longest frame: enough for an answer of several megabytes with all its parts."""


@dataclass
class _Frame:
    event: str = ""
    data: str = ""
    id: str = ""


class FrameDecoder:
    """Makes frames of bytes, however they are cut."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        self.retry_seconds: float | None = None
        self.lived = False
        """Whether an event or a comment has come. The service sends a comment every ten seconds, so a connection without
        either has failed."""

    def feed(self, chunk: bytes) -> Iterator[_Frame]:
        """Takes a chunk and returns the frames that it completes."""
        self._held += chunk
        if b"\r" in chunk or self._held[-len(chunk) - 1 :].startswith(b"\r"):
            self._held = self._held.replace(b"\r\n", b"\n")
            self._searched = 0
        while (end := self._held.find(b"\n\n", max(0, self._searched - 1))) >= 0:
            text = self._held[:end].decode()
            del self._held[: end + 2]
            self._searched = 0
            frame = self._read(text)
            if frame.data:
                self.lived = True
                yield frame
        self._searched = len(self._held)
        if self._searched > _FRAME_MAX_BYTES:
            raise ResponseFormError(f"an event is longer than {_FRAME_MAX_BYTES} bytes")

    def _read(self, text: str) -> _Frame:
        frame = _Frame()
        for line in text.split("\n"):
            self.lived |= line.startswith(":")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                frame.event = value
            elif field == "data":
                frame.data = f"{frame.data}\n{value}" if frame.data else value
            elif field == "id":
                frame.id = value
            elif field == "retry" and value.isdecimal():
                self.retry_seconds = int(value) / 1000
        return frame


class StreamProgress:
    """Where a reader of a stream stands, over all its connections."""

    def __init__(self, ends: bool, last_event_id: str | None, retries: Retries) -> None:
        self._ends = ends
        self._retries = retries
        self._failures = 0
        self.last_event_id = last_event_id
        self.is_over = False

    def must_collect(self, status: int, newest: Answer | None) -> bool:
        """Takes the status of a connection; returns whether the answer is complete and was not read to its end, maybe by
        an earlier stream: the service then has nothing to stream."""
        if status != 204:
            return False
        self.is_over = not self._ends or bool(newest and newest.is_completed)
        return not self.is_over

    def collected(self, answer: Answer) -> StreamEvent:
        """Returns the event of an answer that was collected."""
        self.is_over = True
        return StreamEvent(event="completed", answer=answer, id=self.last_event_id or "")

    def headers(self) -> dict[str, str]:
        """Returns the headers of the next connection."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last_event_id:
            headers["Last-Event-ID"] = self.last_event_id
        return headers

    def accept(self, frame: _Frame) -> StreamEvent | None:
        """Takes a frame; returns its event if it is a known one."""
        if frame.event != "message" and frame.event != "completed":
            return None
        try:
            answer = decode(Answer, json.loads(frame.data))
        except (ValueError, KeyError, TypeError) as error:
            raise ResponseFormError(f"an event is not an answer: {error}") from error
        self.last_event_id = frame.id or self.last_event_id
        self.is_over = self._ends and frame.event == "completed"
        return StreamEvent(event="completed" if frame.event == "completed" else "message", answer=answer, id=frame.id)

    def wait_after_break(self, cause: Exception | None, frames: FrameDecoder) -> float:
        """Returns how long to wait after the connection of these frames; raises when too many in a row have failed."""
        self._failures = 1 if frames.lived else self._failures + 1
        wait = self._retries.after_break(self._failures, repeatable=True, connected=True)
        if wait is None:
            raise ConnectionFailedError(f"the stream broke {self._failures} times in a row") from cause
        return max(wait, frames.retry_seconds or 0.0)


class TextPieces:
    """Makes pieces of the states of one answer, whose concatenation is its text."""

    def __init__(self) -> None:
        self._given = ""

    def next(self, answer: Answer) -> str:
        """Returns what the text has beyond the pieces so far. A model's step that broke is repeated, and the text then
        grows anew: nothing is returned until it has caught up. Raises `TextRevisedError` if it ends otherwise."""
        # White space at the end may not last.
        text = answer.text if answer.is_completed else answer.text.rstrip()
        if text.startswith(self._given):
            piece = text[len(self._given) :]
            self._given = text
            return piece
        if answer.is_completed:
            raise TextRevisedError(answer)
        return ""
