"""The synchronous client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Unpack

import httpx

from . import _calls
from ._chat_cursor import ChatCursor
from ._downloads import replacing
from ._retries import Retries
from ._settings import TIMEOUT_SECONDS, Settings
from ._transport import AnswerStream, EventStream, Transport
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


class Causerie:
    """A client with a key. It can be used by several threads, and is closed by `close` or as a context manager.

    `base_url` and `api_key` are taken from `CAUSERIE_URL` and `CAUSERIE_API_KEY` unless given. `timeout` is the longest
    silence of the service in a call, in seconds, besides a `wait`; `http_client` can bring proxies and certificates."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: Retries | None = None,
        http_client: httpx.Client | None = None,
    ) -> None:
        settings = Settings.of(base_url, api_key, timeout, retries)
        self._transport = Transport(http_client or httpx.Client(), settings)
        self.vm = Vm(self._transport)
        self.catalogs = Catalogs(self._transport)
        self.files = Files(self._transport)
        self.directories = Directories(self._transport)
        self.chats = Chats(self._transport)
        self.answers = Answers(self._transport)

    def ask(self, text: str, *, wait: float | None = None, **options: Unpack[QuestionOptions]) -> Answer:
        """Asks a question. The answer is in progress, unless it is completed within `wait` seconds (at most 60)."""
        return self._transport.send(_calls.ask(text, wait, options))

    def stream(self, text: str, **options: Unpack[QuestionOptions]) -> AnswerStream:
        """Asks a question and streams its answer."""
        return self.answers.stream(self.ask(text, **options))

    def close(self) -> None:
        """Closes its connections."""
        self._transport.http.close()

    def __enter__(self) -> Causerie:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Resource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Vm(_Resource):
    """The account's machine."""

    def get(self) -> VmStatus:
        return self._transport.send(_calls.get_vm())

    def start(self) -> VmStatus:
        return self._transport.send(_calls.command_vm("start"))

    def stop(self) -> VmStatus:
        return self._transport.send(_calls.command_vm("stop"))


class Catalogs(_Resource):
    """What a question may choose from. `language` of labels is `cs`, `en` or `sk`."""

    def models(self, *, language: str | None = None) -> list[Model]:
        return self._transport.send(_calls.list_models(language))

    def jurisdictions(self, *, language: str | None = None) -> list[Jurisdiction]:
        return self._transport.send(_calls.list_jurisdictions(language))

    def skills(self) -> list[PluginEntry]:
        return self._transport.send(_calls.list_entries("skills"))

    def agents(self) -> list[PluginEntry]:
        return self._transport.send(_calls.list_entries("agents"))


class Files(_Resource):
    """Files of the workspace."""

    def upload(
        self,
        content: FileContent,
        *,
        name: str | None = None,
        destination: str | None = None,
        temporary: bool = False,
    ) -> UploadedFile:
        """Uploads a file: a path (`str` or `Path`), bytes, or a file that is open for reading bytes."""
        fields = upload_fields(destination, temporary)
        return self._transport.upload(_calls.upload(temporary), Upload(content, name), fields)

    def download(self, path: str) -> bytes:
        """Returns the content of a file."""
        with self._transport.response(_calls.download(path)) as response:
            return response.read()

    @contextmanager
    def open(self, path: str) -> Iterator[Iterator[bytes]]:
        """Streams the content of a file in chunks, as long as the context lasts."""
        with self._transport.response(_calls.download(path)) as response:
            yield response.iter_bytes()

    def save(self, path: str, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """Downloads a file to a path or into an open file; returns its size in bytes. A file at the path is replaced once the
        download is complete."""
        if isinstance(target, str | os.PathLike):
            with replacing(target) as file:
                return self.save(path, file)
        with self.open(path) as chunks:
            return sum(target.write(chunk) for chunk in chunks)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, or a folder; with `recursive` one that is not empty."""
        self._transport.send(_calls.delete_file(path, recursive))


def upload_fields(destination: str | None, temporary: bool) -> dict[str, str]:
    fields = {"destination": destination} if destination is not None else {}
    return {**fields, "temporary": "true"} if temporary else fields


class Directories(_Resource):
    """Folders of the workspace."""

    def list(self, path: str = "/") -> DirectoryListing:
        return self._transport.send(_calls.list_directory(path))

    def create(self, path: str) -> CreatedDirectory:
        return self._transport.send(_calls.create_directory(path))


class Chats(_Resource):
    """Conversations."""

    def list(self, *, page_size: int = 100) -> Iterator[Chat]:
        """Iterates over all conversations, each once: pinned ones first, then the most recent. They may be changed and deleted
        meanwhile."""
        cursor = ChatCursor(page_size)
        while not cursor.is_over:
            yield from cursor.accept(self.page(offset=cursor.offset, limit=cursor.limit))

    def page(self, *, offset: int = 0, limit: int = 50) -> ChatPage:
        """Returns one page, of at most 200 conversations."""
        return self._transport.send(_calls.chat_page(offset, limit))

    def get(self, chat_id: str) -> ChatDetail:
        return self._transport.send(_calls.get_chat(chat_id))

    def update(self, chat_id: str, *, title: str | None = None, pinned: bool | None = None) -> Chat:
        return self._transport.send(_calls.change_chat(chat_id, title, pinned))

    def stop(self, chat_id: str) -> Chat:
        """Stops the answer that is being written."""
        return self._transport.send(_calls.stop_chat(chat_id))

    def delete(self, chat_id: str) -> None:
        self._transport.send(_calls.delete_chat(chat_id))

    def watch(self, chat_id: str, *, last_event_id: str | None = None) -> EventStream:
        """Streams the conversation through all its questions. It begins with the latest answer."""
        return EventStream(self._transport, _calls.chat_events(chat_id), ends=False, last_event_id=last_event_id)


class Answers(_Resource):
    """Answers that were asked for."""

    def get(self, chat_id: str, message_id: str, *, wait: float | None = None) -> Answer:
        """Returns the answer as it stands, or as it is when completed within `wait` seconds (at most 60)."""
        return self._transport.send(_calls.collect(chat_id, message_id, wait))

    def wait(self, answer: Answer) -> Answer:
        """Waits until the answer is completed or has pending calls, however long that takes."""
        while not answer.is_completed and not answer.pending:
            answer = self.get(answer.chat_id, answer.id, wait=_calls.WAIT_MAX_SECONDS)
        return answer

    def reply(
        self, chat_id: str, message_id: str, call_id: str, output: str | None = None, *, error: str | None = None
    ) -> Answer:
        """Replies to a pending call of an answer: with the output, or with the reason why there is none."""
        return self._transport.send(_calls.reply(chat_id, message_id, call_id, output, error))

    def stream(self, answer: Answer, *, last_event_id: str | None = None) -> AnswerStream:
        """Streams an answer that `ask` returned."""
        return self.resume(answer.chat_id, answer.id, last_event_id=last_event_id)

    def resume(self, chat_id: str, message_id: str, *, last_event_id: str | None = None) -> AnswerStream:
        """Streams an answer, after the state that `last_event_id` names."""
        return AnswerStream(self._transport, _calls.answer_events(chat_id, message_id), last_event_id)
