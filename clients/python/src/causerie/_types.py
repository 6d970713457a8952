"""The objects of the interface. Attributes are its fields in snake case; times are aware `datetime`s in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from ._decode import decode

AnswerStatus: TypeAlias = Literal["in_progress", "completed"]
MachineState: TypeAlias = Literal["RUNNING", "STOPPED", "STARTING", "STOPPING"]
RunState: TypeAlias = Literal["PENDING", "COMPLETE", "ERROR"]


@dataclass(frozen=True, slots=True)
class VmStatus:
    """The state of the account's machine."""

    status: MachineState


@dataclass(frozen=True, slots=True)
class ModelSettingOption:
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """A setting of a model: a question sets it by `settings={key: value}`."""

    key: str
    label: str
    options: list[ModelSettingOption]
    default_value: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model that a question may name by its `id`."""

    id: str
    label: str
    description: str
    provider: str
    status: str
    default: bool
    deprecated: bool
    settings: list[ModelSetting]
    builtin: bool = False


@dataclass(frozen=True, slots=True)
class Jurisdiction:
    id: str
    label: str


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A skill or an agent. A question names it by `id`, `full_name` or `name`."""

    id: str
    name: str
    full_name: str
    description: str


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that was uploaded; `path` is for `file_paths` of a question."""

    name: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FileIndexing:
    """How far the indexing of a file has come: `pending`, `indexing`, `indexed`, `partial` or `unreadable`."""

    state: str
    reason: str | None = None
    message: str | None = None
    pages_read: int | None = None
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class FolderIndexing:
    """How many files at and below a folder there are, by the state of their indexing."""

    files: int
    indexed: int
    pending: int
    partial: int
    unreadable: int


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a folder; `size` in bytes, 0 unless it is a file. `indexing` is of files only."""

    name: str
    path: str
    type: Literal["FILE", "DIRECTORY", "SYMLINK", "OTHER"]
    size: int
    modified_time: datetime
    mime_type: str
    indexing: FileIndexing | None = None


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    path: str
    entries: list[DirectoryEntry]
    total_entries: int
    indexing: FolderIndexing


@dataclass(frozen=True, slots=True)
class CreatedDirectory:
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class FileSource:
    """A place in a file of the workspace: its `page`, its first and last of `lines`, or both, where it has them.

    `page_name` is the name of the sheet, or of the file in an archive, that the page is, or of the file that is attached to it.
    """

    type: Literal["FILE"]
    path: str
    page: int | None = None
    lines: list[int] | None = None
    page_name: str | None = None


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A page of the web."""

    type: Literal["URL"]
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class UnknownObject:
    """An object of a type that was added after this version of the client, as it came in `fields`."""

    type: str
    fields: Mapping[str, Any]


def _by(field: str, shapes: Mapping[str, type[Any]], value: Any) -> Any:
    kind = value[field]
    shape = shapes.get(kind)
    return decode(shape, value) if shape else UnknownObject(type=kind, fields=value)


def _source(value: Any) -> Any:
    return _by("type", {"FILE": FileSource, "URL": UrlSource}, value)


Source: TypeAlias = FileSource | UrlSource | UnknownObject


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that a piece of the answer cites; its link in the HTML has the id in `data-citation`."""

    citation_id: str
    source: Annotated[Source, _source]
    verified: bool | None = None
    """Whether every sentence that cites the passage stands in it; None until the text is finished, or if unchecked."""
    reason: str | None = None
    """What does not stand in the passage, if it is not verified."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of the answer, as safe HTML."""

    part_id: str
    type: Literal["TEXT"]
    content: str
    citations: list[Citation]


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    part_id: str
    type: Literal["REASONING"]
    content: str


@dataclass(frozen=True, slots=True)
class ToolPart:
    part_id: str
    type: Literal["TOOL"]
    tool_name: str
    tool_call_id: str
    state: RunState
    sources: list[Annotated[Source, _source]]


@dataclass(frozen=True, slots=True)
class WebSearchPart:
    part_id: str
    type: Literal["WEB_SEARCH"]
    tool_name: str
    tool_call_id: str
    state: RunState
    query: str
    sources: list[Annotated[Source, _source]]


@dataclass(frozen=True, slots=True)
class SkillPart:
    part_id: str
    type: Literal["SKILL"]
    skill_id: str
    name: str
    full_name: str
    state: RunState


@dataclass(frozen=True, slots=True)
class AgentPart:
    """Another agent that was given a part of the task; `content` is safe HTML and grows."""

    part_id: str
    type: Literal["AGENT"]
    agent_id: str
    name: str
    full_name: str
    state: RunState
    content: str
    citations: list[Citation]


@dataclass(frozen=True, slots=True)
class FilePart:
    part_id: str
    type: Literal["FILE"]
    path: str
    name: str


_PARTS: Mapping[str, type[Any]] = {
    "TEXT": TextPart,
    "REASONING": ReasoningPart,
    "TOOL": ToolPart,
    "WEB_SEARCH": WebSearchPart,
    "SKILL": SkillPart,
    "AGENT": AgentPart,
    "FILE": FilePart,
}


def _part(value: Any) -> Any:
    return _by("type", _PARTS, value)


Part: TypeAlias = TextPart | ReasoningPart | ToolPart | WebSearchPart | SkillPart | AgentPart | FilePart | UnknownObject


@dataclass(frozen=True, slots=True)
class AnswerError:
    """Why an answer could not be finished. Codes may be added."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call of the model that waits for a reply. `arguments` is JSON as the model wrote it. Types may be added."""

    call_id: str
    type: Literal["FUNCTION", "QUESTION"]
    tool_name: str
    arguments: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it stands. `text` is Markdown; `error` is set if the answer could not be finished."""

    id: str
    chat_id: str
    status: AnswerStatus
    created_at: datetime
    model: str
    text: str
    parts: list[Annotated[Part, _part]]
    pending: list[PendingCall] | None = None
    error: AnswerError | None = None

    @property
    def is_completed(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of a stream. `answer` is the whole state and supersedes those before; `id` resumes after it."""

    event: Literal["message", "completed"]
    answer: Answer
    id: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation in short."""

    chat_id: str
    title: str
    status: AnswerStatus
    created_at: datetime
    modified_at: datetime
    model: str
    pinned: bool
    web_search_enabled: bool
    jurisdictions: list[str]


@dataclass(frozen=True, slots=True)
class ChatPage:
    chats: list[Chat]
    offset: int
    limit: int
    total_count: int


@dataclass(frozen=True, slots=True)
class UserMessage:
    id: str
    role: Literal["USER"]
    status: AnswerStatus
    created_at: datetime
    text: str
    file_paths: list[str]


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    id: str
    role: Literal["ASSISTANT"]
    status: AnswerStatus
    created_at: datetime
    text: str
    parts: list[Annotated[Part, _part]]
    pending: list[PendingCall] | None = None
    error: AnswerError | None = None


def _message(value: Any) -> Any:
    return _by("role", {"USER": UserMessage, "ASSISTANT": AssistantMessage}, value)


Message: TypeAlias = UserMessage | AssistantMessage | UnknownObject


@dataclass(frozen=True, slots=True)
class ChatDetail:
    """A conversation with its messages, the oldest first."""

    chat: Chat
    messages: list[Annotated[Message, _message]]


class QuestionOptions(TypedDict, total=False):
    """What a question may say besides its text; `None` is as if absent."""

    chat_id: str | None
    """The conversation to go on with; a new one unless given."""
    agent_id: str | None
    skill_ids: Sequence[str] | None
    file_paths: Sequence[str] | None
    """Files and folders of the workspace, such as `path` of an upload."""
    model: str | None
    jurisdictions: Sequence[str] | None
    web_search_enabled: bool | None
    tools: Sequence[Mapping[str, Any]] | None
    """Functions that you run yourself: `name`, `description`, `parameters`. Their calls are `pending` of the answer."""
    ask_user_enabled: bool | None
    """Whether the model may ask questions, which are `pending` of the answer."""
    settings: Mapping[str, str] | None
    """Settings of the model, by their keys."""
    idempotency_key: str | None
    """Names the question, so that repeating it asks nothing again; made up for each question unless given."""
