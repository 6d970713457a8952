"""The asynchronous client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import IO, Unpack

import httpx

from . import _calls
from ._async_transport import AsyncAnswerStream, AsyncEventStream, AsyncTransport
from ._chat_cursor import ChatCursor
from ._client import upload_fields
from ._downloads import replacing
from ._retries import Retries
from ._settings import TIMEOUT_SECONDS, Settings
from ._types import (
    Answer,
    Chat,
    ChatDetail,
    ChatPage,
    CreatedDirectory,
    DirectoryListing,
    Jurisdiction,
    Model,
    PluginEntry,
    QuestionOptions,
    UploadedFile,
    VmStatus,
)
from ._uploads import FileContent, Upload


class AsyncCauserie:
    """A client with a key. It is closed by `close` or as a context manager.

    `base_url` and `api_key` are taken from `CAUSERIE_URL` and `CAUSERIE_API_KEY` unless given. `timeout` is the longest
    silence of the service in a call, in seconds, besides a `wait`; `http_client` can bring proxies and certificates."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: Retries | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings.of(base_url, api_key, timeout, retries)
        self._transport = AsyncTransport(http_client or httpx.AsyncClient(), settings)
        self.vm = AsyncVm(self._transport)
        self.catalogs = AsyncCatalogs(self._transport)
        self.files = AsyncFiles(self._transport)
        self.directories = AsyncDirectories(self._transport)
        self.chats = AsyncChats(self._transport)
        self.answers = AsyncAnswers(self._transport)

    async def ask(self, text: str, *, wait: float | None = None, **options: Unpack[QuestionOptions]) -> Answer:
        """Asks a question. The answer is in progress, unless it is completed within `wait` seconds (at most 60)."""
        return await self._transport.send(_calls.ask(text, wait, options))

    async def stream(self, text: str, **options: Unpack[QuestionOptions]) -> AsyncAnswerStream:
        """Asks a question and streams its answer."""
        return self.answers.stream(await self.ask(text, **options))

    async def close(self) -> None:
        """Closes its connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> AsyncCauserie:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _AsyncResource:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


class AsyncVm(_AsyncResource):
    """The account's machine."""

    async def get(self) -> VmStatus:
        return await self._transport.send(_calls.get_vm())

    async def start(self) -> VmStatus:
        return await self._transport.send(_calls.command_vm("start"))

    async def stop(self) -> VmStatus:
        return await self._transport.send(_calls.command_vm("stop"))


class AsyncCatalogs(_AsyncResource):
    """What a question may choose from. `language` of labels is `cs`, `en` or `sk`."""

    async def models(self, *, language: str | None = None) -> list[Model]:
        return await self._transport.send(_calls.list_models(language))

    async def jurisdictions(self, *, language: str | None = None) -> list[Jurisdiction]:
        return await self._transport.send(_calls.list_jurisdictions(language))

    async def skills(self) -> list[PluginEntry]:
        return await self._transport.send(_calls.list_entries("skills"))

    async def agents(self) -> list[PluginEntry]:
        return await self._transport.send(_calls.list_entries("agents"))


class AsyncFiles(_AsyncResource):
    """Files of the workspace."""

    async def upload(
        self,
        content: FileContent,
        *,
        name: str | None = None,
        destination: str | None = None,
        temporary: bool = False,
    ) -> UploadedFile:
        """Uploads a file: a path (`str` or `Path`), bytes, or a file that is open for reading bytes."""
        fields = upload_fields(destination, temporary)
        return await self._transport.upload(_calls.upload(temporary), Upload(content, name), fields)

    async def download(self, path: str) -> bytes:
        """Returns the content of a file."""
        async with self._transport.response(_calls.download(path)) as response:
            return await response.aread()

    @asynccontextmanager
    async def open(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Streams the content of a file in chunks, as long as the context lasts."""
        async with self._transport.response(_calls.download(path)) as response:
            yield response.aiter_bytes()

    async def save(self, path: str, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """Downloads a file to a path or into an open file; returns its size in bytes. A file at the path is replaced once the
        download is complete."""
        if isinstance(target, str | os.PathLike):
            with replacing(target) as file:
                return await self.save(path, file)
        async with self.open(path) as chunks:
            return sum([target.write(chunk) async for chunk in chunks])

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, or a folder; with `recursive` one that is not empty."""
        await self._transport.send(_calls.delete_file(path, recursive))


class AsyncDirectories(_AsyncResource):
    """Folders of the workspace."""

    async def list(self, path: str = "/") -> DirectoryListing:
        return await self._transport.send(_calls.list_directory(path))

    async def create(self, path: str) -> CreatedDirectory:
        return await self._transport.send(_calls.create_directory(path))


class AsyncChats(_AsyncResource):
    """Conversations."""

    async def list(self, *, page_size: int = 100) -> AsyncIterator[Chat]:
        """Iterates over all conversations, each once: pinned ones first, then the most recent. They may be changed and deleted
        meanwhile."""
        cursor = ChatCursor(page_size)
        while not cursor.is_over:
            for chat in cursor.accept(await self.page(offset=cursor.offset, limit=cursor.limit)):
                yield chat

    async def page(self, *, offset: int = 0, limit: int = 50) -> ChatPage:
        """Returns one page, of at most 200 conversations."""
        return await self._transport.send(_calls.chat_page(offset, limit))

    async def get(self, chat_id: str) -> ChatDetail:
        return await self._transport.send(_calls.get_chat(chat_id))

    async def update(self, chat_id: str, *, title: str | None = None, pinned: bool | None = None) -> Chat:
        return await self._transport.send(_calls.change_chat(chat_id, title, pinned))

    async def stop(self, chat_id: str) -> Chat:
        """Stops the answer that is being written."""
        return await self._transport.send(_calls.stop_chat(chat_id))

    async def delete(self, chat_id: str) -> None:
        await self._transport.send(_calls.delete_chat(chat_id))

    def watch(self, chat_id: str, *, last_event_id: str | None = None) -> AsyncEventStream:
        """Streams the conversation through all its questions. It begins with the latest answer."""
        return AsyncEventStream(self._transport, _calls.chat_events(chat_id), ends=False, last_event_id=last_event_id)


class AsyncAnswers(_AsyncResource):
    """Answers that were asked for."""

    async def get(self, chat_id: str, message_id: str, *, wait: float | None = None) -> Answer:
        """Returns the answer as it stands, or as it is when completed within `wait` seconds (at most 60)."""
        return await self._transport.send(_calls.collect(chat_id, message_id, wait))

    async def wait(self, answer: Answer) -> Answer:
        """Waits until the answer is completed or has pending calls, however long that takes."""
        while not answer.is_completed and not answer.pending:
            answer = await self.get(answer.chat_id, answer.id, wait=_calls.WAIT_MAX_SECONDS)
        return answer

    async def reply(
        self, chat_id: str, message_id: str, call_id: str, output: str | None = None, *, error: str | None = None
    ) -> Answer:
        """Replies to a pending call of an answer: with the output, or with the reason why there is none."""
        return await self._transport.send(_calls.reply(chat_id, message_id, call_id, output, error))

    def stream(self, answer: Answer, *, last_event_id: str | None = None) -> AsyncAnswerStream:
        """Streams an answer that `ask` returned."""
        return self.resume(answer.chat_id, answer.id, last_event_id=last_event_id)

    def resume(self, chat_id: str, message_id: str, *, last_event_id: str | None = None) -> AsyncAnswerStream:
        """Streams an answer, after the state that `last_event_id` names."""
        return AsyncAnswerStream(self._transport, _calls.answer_events(chat_id, message_id), last_event_id)
