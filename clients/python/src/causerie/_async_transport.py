"""Sends calls and reads streams, asynchronously: as `_transport` in each line, with `await`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from ._calls import Call, collect_streamed
from ._errors import ConnectionFailedError, ResponseFormError, StatusError
from ._retries import refusal
from ._settings import STREAM_TIMEOUT, Settings
from ._stream import FrameDecoder, StreamProgress, TextPieces
from ._transport import read_response
from ._types import Answer, StreamEvent
from ._uploads import Upload

T = TypeVar("T")


class AsyncTransport:
    """A connection pool with a key, and the rules by which calls are repeated."""

    def __init__(self, http: httpx.AsyncClient, settings: Settings) -> None:
        self.http = http
        self.retries = settings.retries
        self._settings = settings

    async def send(self, call: Call[T]) -> T:
        """Sends a call and reads its response."""
        async with self.response(call) as response:
            return read_response(call, await response.aread())

    async def upload(self, call: Call[T], upload: Upload, fields: dict[str, str]) -> T:
        """Sends a form with a file."""
        attempt = 0
        while True:
            attempt += 1
            with upload.opened() as content:
                files = {"file": (upload.name, content)}
                request = self._request(call.method, call.path, dict(call.headers), data=fields, files=files)
                response = await self._once(request, call.repeatable and upload.repeatable, attempt)
            if response is not None:
                return read_response(call, await self._body(response))

    @asynccontextmanager
    async def response(self, call: Call[Any]) -> AsyncIterator[httpx.Response]:
        """Sends a call; its response can be read as long as the context lasts."""
        attempt = 0
        response: httpx.Response | None = None
        while response is None:
            attempt += 1
            timeout = self._settings.timeout_of(call.held)
            content = {"params": call.query, "json": call.json, "timeout": timeout}
            request = self._request(call.method, call.path, dict(call.headers), **content)
            response = await self._once(request, call.repeatable, attempt)
        try:
            yield response
        except httpx.TransportError as error:
            raise ConnectionFailedError(f"the response broke off: {error}") from error
        finally:
            await response.aclose()

    async def _body(self, response: httpx.Response) -> bytes:
        try:
            return await response.aread()
        except httpx.TransportError as error:
            raise ConnectionFailedError(f"the response broke off: {error}") from error
        finally:
            await response.aclose()

    async def connect(self, path: str, headers: dict[str, str]) -> httpx.Response:
        """Opens a stream. Raises `httpx.TransportError` and `StatusError`."""
        request = self._request("GET", path, headers, timeout=STREAM_TIMEOUT)
        return await self._checked(await self._send(request))

    async def _once(self, request: httpx.Request, repeatable: bool, attempt: int) -> httpx.Response | None:
        """Sends a request once; returns `None` after the wait if it is to be sent again."""
        try:
            return await self._checked(await self._send(request))
        except StatusError as error:
            wait = self.retries.after_status(error, attempt, repeatable)
            if wait is None:
                raise
        except httpx.TransportError as error:
            connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            wait = self.retries.after_break(attempt, repeatable, connected)
            if wait is None:
                raise ConnectionFailedError(f"the service cannot be reached: {error}") from error
        await asyncio.sleep(wait)
        return None

    def _request(self, method: str, path: str, headers: dict[str, str], **content: Any) -> httpx.Request:
        content.setdefault("timeout", self._settings.timeout_of(0))
        headers = {**self._settings.headers, **headers}
        return self.http.build_request(method, self._settings.base + path, headers=headers, **content)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        # A redirect must not send the key to another host, nor turn a question into a GET.
        return await self.http.send(request, stream=True, follow_redirects=False)

    async def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        raise refusal(response.status_code, response.headers, await self._body(response))


class AsyncEventStream:
    """The events of an answer or of a conversation. A broken connection is resumed after the last event. Iterate it for
    events; close it, or use it as a context manager."""

    def __init__(self, transport: AsyncTransport, path: str, ends: bool, last_event_id: str | None = None) -> None:
        self._transport = transport
        self._path = path
        self._progress = StreamProgress(ends, last_event_id, transport.retries)
        self._events = self._read()
        self.answer: Answer | None = None
        """The newest state that was read."""

    @property
    def last_event_id(self) -> str | None:
        """Names the newest state; a later stream resumes after it."""
        return self._progress.last_event_id

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leaves the stream. The answer goes on."""
        self._progress.is_over = True
        await self._events.aclose()

    async def _read(self) -> AsyncGenerator[StreamEvent, None]:
        while not self._progress.is_over:
            cause: Exception | None = None
            frames = FrameDecoder()
            try:
                async with aclosing(self._connection(frames)) as events:
                    async for event in events:
                        yield event
            except httpx.TransportError as error:
                cause = error
            except StatusError as error:
                if self._transport.retries.after_status(error, 1, repeatable=True) is None:
                    raise
                cause, frames.retry_seconds = error, error.retry_after
            if not self._progress.is_over:
                await asyncio.sleep(self._progress.wait_after_break(cause, frames))

    async def _connection(self, frames: FrameDecoder) -> AsyncGenerator[StreamEvent, None]:
        async with aclosing(await self._transport.connect(self._path, self._progress.headers())) as response:
            if self._progress.must_collect(response.status_code, self.answer):
                self.answer = await self._transport.send(collect_streamed(self._path))
                yield self._progress.collected(self.answer)
                return
            async for chunk in response.aiter_bytes():
                for frame in frames.feed(chunk):
                    event = self._progress.accept(frame)
                    if event is not None:
                        self.answer = event.answer
                        yield event


class AsyncAnswerStream(AsyncEventStream):
    """The stream of one answer, which ends when it is completed."""

    def __init__(self, transport: AsyncTransport, path: str, last_event_id: str | None = None) -> None:
        super().__init__(transport, path, ends=True, last_event_id=last_event_id)

    async def __aenter__(self) -> AsyncAnswerStream:
        return self

    @property
    async def text(self) -> AsyncIterator[str]:
        """Iterates over the text as it grows, in pieces. Raises `TextRevisedError` if it was handed out what then
        changed, which a broken model may cause."""
        pieces = TextPieces()
        async for event in self:
            if piece := pieces.next(event.answer):
                yield piece

    async def until_done(self) -> Answer:
        """Reads to the end and returns the completed answer."""
        async for _ in self:
            pass
        if self.answer is None:
            raise ResponseFormError("the stream ended without an event")
        return self.answer
