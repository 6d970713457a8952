"""The calls of the interface, as values: a client sends them, whether it is synchronous or not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote_to_bytes

from ._decode import decode
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

T = TypeVar("T")

WAIT_MAX_SECONDS = 60
"""The service holds no response longer than this."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its response is read. A repeatable one may be sent again when its response was lost."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    repeatable: bool = True
    held: float = 0.0
    """For so many seconds the service may hold the response, as it was asked to."""


def _as(shape: type[T]) -> Callable[[Any], T]:
    return lambda value: decode(shape, value)


def _nothing(_: Any) -> None:
    return None


def get_vm() -> Call[VmStatus]:
    return Call("GET", "/vm", _as(VmStatus))


def command_vm(command: str) -> Call[VmStatus]:
    return Call("POST", f"/vm/{command}", _as(VmStatus))


def list_models(language: str | None) -> Call[list[Model]]:
    return Call("GET", "/models", _as(list[Model]), headers=_language(language))


def list_jurisdictions(language: str | None) -> Call[list[Jurisdiction]]:
    return Call("GET", "/jurisdictions", _as(list[Jurisdiction]), headers=_language(language))


def list_entries(kind: str) -> Call[list[PluginEntry]]:
    return Call("GET", f"/{kind}", _as(list[PluginEntry]))


def upload(temporary: bool) -> Call[UploadedFile]:
    # A temporary file gets a folder of its own each time: a second one would stay unseen.
    return Call("POST", "/files", _as(UploadedFile), repeatable=not temporary)


def download(path: str) -> Call[None]:
    return Call("GET", "/files" + in_url(path), _nothing)


def delete_file(path: str, recursive: bool) -> Call[None]:
    query = {"recursive": "true"} if recursive else {}
    return Call("DELETE", "/files" + in_url(path), _nothing, query=query, repeatable=False)


def list_directory(path: str) -> Call[DirectoryListing]:
    inside = in_url(path)
    return Call("GET", "/directories" + (inside if inside != "/" else ""), _as(DirectoryListing))


def create_directory(path: str) -> Call[CreatedDirectory]:
    return Call("POST", "/directories" + in_url(path), _as(CreatedDirectory), repeatable=False)


def ask(text: str, wait: float | None, options: QuestionOptions) -> Call[Answer]:
    given: dict[str, Any] = dict(options)
    key = given.pop("idempotency_key", None) or str(uuid.uuid4())
    settings: Mapping[str, str] | None = given.pop("settings", None)
    names = {
        "chat_id": "chatId",
        "agent_id": "agentId",
        "skill_ids": "skillIds",
        "file_paths": "filePaths",
        "model": "model",
        "jurisdictions": "jurisdictions",
        "web_search_enabled": "webSearchEnabled",
        "tools": "tools",
        "ask_user_enabled": "askUserEnabled",
    }
    body: dict[str, Any] = {"input": text}
    for name, value in given.items():
        if value is not None:
            body[names[name]] = value if isinstance(value, str | bool) else list(value)
    if settings is not None:
        body["settings"] = [{"key": name, "value": value} for name, value in settings.items()]
    headers = {"Idempotency-Key": key, **_prefer(wait)}
    return Call("POST", "/chats", _as(Answer), headers=headers, json=body, held=_held(wait))


def collect(chat_id: str, message_id: str, wait: float | None) -> Call[Answer]:
    path = _answer_path(chat_id, message_id)
    return Call("GET", path, _as(Answer), headers=_prefer(wait), held=_held(wait))


def reply(chat_id: str, message_id: str, call_id: str, output: str | None, error: str | None) -> Call[Answer]:
    path = f"{_answer_path(chat_id, message_id)}/calls/{_segment(call_id)}"
    given = {"output": output, "error": error}
    return Call("POST", path, _as(Answer), json={name: text for name, text in given.items() if text is not None})


def collect_streamed(events_path: str) -> Call[Answer]:
    """Collects the answer of a stream."""
    return Call("GET", events_path.removesuffix("/events"), _as(Answer))


def answer_events(chat_id: str, message_id: str) -> str:
    """Returns the path of an answer's stream."""
    return _answer_path(chat_id, message_id) + "/events"


def chat_events(chat_id: str) -> str:
    """Returns the path of a conversation's stream."""
    return f"/chats/{_segment(chat_id)}/events"


def chat_page(offset: int, limit: int) -> Call[ChatPage]:
    return Call("GET", "/chats", _as(ChatPage), query={"offset": str(offset), "limit": str(limit)})


def get_chat(chat_id: str) -> Call[ChatDetail]:
    return Call("GET", f"/chats/{_segment(chat_id)}", _as(ChatDetail))


def change_chat(chat_id: str, title: str | None, pinned: bool | None) -> Call[Chat]:
    change = {"title": title, "pinned": pinned}
    body = {name: value for name, value in change.items() if value is not None}
    return Call("PATCH", f"/chats/{_segment(chat_id)}", _as(Chat), json=body)


def stop_chat(chat_id: str) -> Call[Chat]:
    return Call("POST", f"/chats/{_segment(chat_id)}/stop", _as(Chat))


def delete_chat(chat_id: str) -> Call[None]:
    return Call("DELETE", f"/chats/{_segment(chat_id)}", _nothing, repeatable=False)


def in_url(path: str) -> str:
    """Encodes a path of the workspace. Bytes of names that are not UTF-8 come percent-encoded; those stay.

    Libraries resolve `..` in URLs, which would lead to another operation. A path that has it is sent as one segment, so that the
    service resolves it, and refuses what is outside.
    """
    path = path.lstrip("/")
    try:
        unquote_to_bytes(path).decode()
        safe = ""
    except UnicodeDecodeError:
        safe = "%"
    encoded = [quote(name, safe=safe) for name in path.split("/")]
    return "/" + ("%2F".join([*encoded, ""]) if any(map(_is_dots, encoded)) else "/".join(encoded))


def _answer_path(chat_id: str, message_id: str) -> str:
    return f"/chats/{_segment(chat_id)}/messages/{_segment(message_id)}"


def _segment(identifier: str) -> str:
    encoded = quote(identifier, safe="")
    return encoded + "%2F" if _is_dots(encoded) else encoded


def _is_dots(name: str) -> bool:
    return name.lower().replace("%2e", ".") in (".", "..")


def _language(language: str | None) -> Mapping[str, str]:
    return {"Accept-Language": language} if language else {}


def _prefer(wait: float | None) -> Mapping[str, str]:
    return {"Prefer": f"wait={_held(wait)}"} if wait else {}


def _held(wait: float | None) -> int:
    return min(int(wait or 0), WAIT_MAX_SECONDS)
