"""What the client does when the service, or what is in between, fails: played by a transport of its own."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from causerie import (
    AnswerStream,
    Causerie,
    ConnectionFailedError,
    NotFoundError,
    RateLimitError,
    ResponseFormError,
    Retries,
    TextRevisedError,
)
from causerie._stream import FrameDecoder

ANSWER = {"id": "m", "chatId": "c", "createdAt": "2026-11-21T09:30:00.000Z", "model": "x", "parts": []}
CHAT = {
    "title": "",
    "status": "completed",
    "createdAt": ANSWER["createdAt"],
    "modifiedAt": ANSWER["createdAt"],
    "model": "x",
    "pinned": False,
    "webSearchEnabled": False,
    "jurisdictions": [],
}
QUICK = Retries(most=3, first_wait=0.001, longest_wait=5)
Reply = httpx.Response | Exception


def client_of(replies: list[Reply]) -> tuple[Causerie, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        request.read()
        seen.append(request)
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return Causerie(base_url="http://test", api_key="api-x", retries=QUICK, http_client=http), seen


def answered(text: str = "", status: str = "completed", **more: Any) -> dict[str, Any]:
    return {**ANSWER, "text": text, "status": status, **more}


def frame(text: str, revision: int, status: str = "in_progress") -> str:
    event = "completed" if status == "completed" else "message"
    return f"event: {event}\ndata: {json.dumps(answered(text, status))}\nid: m:1.{revision}\nretry: 1\n\n"


def events(*frames: str, cut: bool = False) -> httpx.Response:
    def body() -> Iterator[bytes]:
        yield "".join(frames).encode()
        if cut:
            raise httpx.ReadError("cut")

    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())


def test_a_question_is_repeated_under_one_key() -> None:
    busy = httpx.Response(503, headers={"retry-after": "0"}, json={"code": "UNAVAILABLE", "message": "starting"})
    client, seen = client_of([httpx.ReadError("reset"), busy, httpx.Response(202, json=answered("", "in_progress"))])
    assert client.ask("Hello", settings={"reasoningEffort": "HIGH"}).id == "m"
    assert len({request.headers["idempotency-key"] for request in seen}) == 1 and len(seen) == 3
    assert json.loads(seen[2].content) == {
        "input": "Hello",
        "settings": [{"key": "reasoningEffort", "value": "HIGH"}],
    }


def test_a_wait_beyond_the_longest_is_the_callers() -> None:
    limited = httpx.Response(429, headers={"retry-after": "60"}, json={"code": "RATE_LIMITED", "message": "slow"})
    client, seen = client_of([limited])
    with pytest.raises(RateLimitError) as raised:
        client.vm.get()
    assert raised.value.retry_after == 60 and len(seen) == 1


def test_a_client_of_the_callers_waits_as_long_as_the_service_holds_a_response() -> None:
    client, seen = client_of([httpx.Response(200, json={"status": "RUNNING"}), events(frame("x", 1, "completed"))])
    client.vm.get()
    client.answers.resume("c", "m").until_done()
    assert [request.extensions["timeout"]["read"] for request in seen] == [90, 45]


def test_a_wait_is_added_to_the_timeout() -> None:
    seen: list[dict[str, float]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200, json=answered())

    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = Causerie(base_url="http://test", api_key="api-x", timeout=5, http_client=http)
    client.ask("Hello", wait=30)
    client.answers.get("c", "m", wait=100)
    client.answers.get("c", "m")
    assert [timeout["read"] for timeout in seen] == [35, 65, 5]
    assert all(timeout["connect"] == 5 for timeout in seen)


def test_attempts_are_bounded_and_what_may_not_be_repeated_is_not() -> None:
    client, seen = client_of([httpx.ReadError("reset") for _ in range(9)])
    with pytest.raises(ConnectionFailedError):
        client.vm.get()
    assert len(seen) == 1 + QUICK.most
    with pytest.raises(ConnectionFailedError):
        client.files.upload(b"x", name="x", temporary=True)
    assert len(seen) == 2 + QUICK.most


def test_a_file_is_sent_whole_again(tmp_path: Any) -> None:
    stored = {"name": "x", "path": "/x", "size": 5}
    path = tmp_path / "x"
    path.write_bytes(b"hello")
    with path.open("rb") as file:
        for content in (b"hello", path, file):
            client, seen = client_of([httpx.ReadError("reset"), httpx.Response(201, json=stored)])
            assert client.files.upload(content, name="x").size == 5
            assert [b"hello" in request.content for request in seen] == [True, True]


def test_a_stream_resumes_after_its_last_event() -> None:
    client, seen = client_of(
        [
            events(frame("One", 1), "event: message\ndata: {", cut=True),
            httpx.ConnectError("refused"),
            httpx.Response(503, json={"code": "UNAVAILABLE", "message": "starting"}),
            events(frame("On", 2), frame("One tw \n", 3)),
            events(frame("One two.", 4, "completed")),
        ]
    )
    stream = client.answers.resume("c", "m")
    assert list(stream.text) == ["One", " tw", "o."]
    ids = [request.headers.get("last-event-id") for request in seen]
    assert ids == [None, "m:1.1", "m:1.1", "m:1.1", "m:1.3"]


def test_an_answer_that_was_read_to_its_end_before_is_collected() -> None:
    def stream(*before: httpx.Response) -> tuple[AnswerStream, list[httpx.Request]]:
        client, seen = client_of([*before, httpx.Response(204), httpx.Response(200, json=answered("One two."))])
        return client.answers.resume("c", "m", last_event_id="m:1.4"), seen

    resumed, seen = stream()
    assert resumed.until_done().text == "One two."
    assert [request.url.path for request in seen][1:] == ["/api/v1/chats/c/messages/m"]
    resumed, _ = stream()
    assert list(resumed.text) == ["One two."]
    resumed, _ = stream(events(frame("One", 1)))
    assert list(resumed.text) == ["One", " two."]


def test_a_conversation_of_which_nothing_is_left_to_read_ends() -> None:
    client, seen = client_of([httpx.Response(204)])
    assert list(client.chats.watch("c")) == [] and len(seen) == 1


def test_a_text_that_was_revised_is_not_passed_off_as_its_continuation() -> None:
    client, _ = client_of([events(frame("One two", 1), frame("Three", 2), frame("Three.", 3, "completed"))])
    pieces = client.answers.resume("c", "m").text
    assert next(pieces) == "One two"
    with pytest.raises(TextRevisedError) as raised:
        next(pieces)
    assert raised.value.answer.text == "Three."


def test_a_stream_on_which_nothing_happens_is_resumed_as_often_as_it_breaks() -> None:
    idle: list[Reply] = [events(": beat\n\n", cut=bool(each % 2)) for each in range(3 * QUICK.most)]
    client, _ = client_of([*idle, events(frame("One.", 1, "completed"))])
    assert client.answers.resume("c", "m").until_done().text == "One."


def test_a_stream_that_breaks_before_its_first_heartbeat_is_given_up() -> None:
    client, seen = client_of([events("retry: 1\n\nevent: message\ndata: {") for _ in range(9)])
    with pytest.raises(ConnectionFailedError):
        client.answers.resume("c", "m").until_done()
    assert len(seen) == 1 + QUICK.most


def test_a_stream_that_never_comes_is_given_up() -> None:
    client, seen = client_of([httpx.ConnectError("refused") for _ in range(9)])
    with pytest.raises(ConnectionFailedError):
        client.answers.resume("c", "m").until_done()
    assert len(seen) == 1 + QUICK.most


def test_redirects_are_refused() -> None:
    moved = httpx.Response(301, headers={"location": "http://other/api/v1/chats"})
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return moved

    http = httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True)
    client = Causerie(base_url="http://test", api_key="api-x", retries=QUICK, http_client=http)
    for call in (lambda: client.ask("Hello"), client.vm.get, lambda: client.answers.resume("c", "m").until_done()):
        with pytest.raises(ResponseFormError, match="redirects"):
            call()
    assert {request.url.host for request in seen} == {"test"} and len(seen) == 3


def test_a_download_that_fails_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    def cut() -> Iterator[bytes]:
        yield b"half of "
        raise httpx.ReadError("cut")

    target = tmp_path / "report.docx"
    target.write_bytes(b"old")
    target.chmod(0o640)
    refused = httpx.Response(404, json={"code": "NOT_FOUND", "message": "no such file"})
    whole = httpx.Response(200, content=b"whole")
    client, _ = client_of([refused, httpx.Response(200, content=cut()), whole, refused, httpx.Response(200, content=b"x")])
    for error in (NotFoundError, ConnectionFailedError):
        with pytest.raises(error):
            client.files.save("/report.docx", target)
        assert target.read_bytes() == b"old"
    link = tmp_path / "link"
    link.symlink_to(target)
    assert client.files.save("/report.docx", link) == 5
    assert link.is_symlink() and target.read_bytes() == b"whole" and target.stat().st_mode & 0o777 == 0o640
    with pytest.raises(NotFoundError):
        client.files.save("/report.docx", tmp_path / "new")
    assert client.files.save("/report.docx", os.devnull) == 1
    assert sorted(tmp_path.iterdir()) == [link, target] and Path(os.devnull).is_char_device()


class Listed:
    """A service with conversations, newest first, that change while they are listed."""

    def __init__(self, count: int) -> None:
        self.chats = [f"c{number}" for number in range(count)]
        self.pages = 0

    def client(self) -> Causerie:
        http = httpx.Client(transport=httpx.MockTransport(self._answer))
        return Causerie(base_url="http://test", api_key="api-x", http_client=http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.pages += 1
        offset, limit = (int(request.url.params[name]) for name in ("offset", "limit"))
        page = [{**CHAT, "chatId": chat} for chat in self.chats[offset : offset + limit]]
        return httpx.Response(200, json={"chats": page, "totalCount": len(self.chats), "offset": offset, "limit": limit})

    def continue_(self, chat: str) -> None:
        self.chats.remove(chat)
        self.chats.insert(0, chat)

    def move_back(self, chat: str) -> None:
        self.chats.remove(chat)
        self.chats.append(chat)


@pytest.mark.parametrize(
    ("change", "pages"),
    [
        (lambda _listed, _chat: None, 4),
        (lambda listed, chat: listed.chats.remove(chat), 7),
        (lambda listed, chat: int(chat[1:]) % 2 and listed.chats.remove(chat), 8),
        (lambda listed, chat: listed.continue_(chat), 5),
        (lambda listed, chat: chat == "c0" and listed.move_back(chat), 6),
        (lambda listed, chat: chat == "c5" and listed.continue_("c35"), 6),
    ],
    ids=["nothing", "deleted", "half deleted", "continued", "unpinned", "another continued"],
)
def test_no_conversation_is_passed_over_while_the_list_changes(
    change: Callable[[Listed, str], object], pages: int
) -> None:
    listed = Listed(40)
    expected = set(listed.chats)
    seen = []
    for chat in listed.client().chats.list(page_size=10):
        seen.append(chat.chat_id)
        change(listed, chat.chat_id)
    assert len(seen) == 40 and set(seen) == expected
    assert listed.pages <= pages


def test_what_is_new_is_read_and_what_is_broken_is_told() -> None:
    part = {"partId": "p", "type": "DANCE", "steps": 3}
    error = {"code": "OF_LATER", "message": "later"}
    client, _ = client_of(
        [
            httpx.Response(200, json=answered("x", parts=[part], error=error, new=1)),
            httpx.Response(200, content=b"<html>"),
            httpx.Response(200, json={"id": 1}),
        ]
    )
    answer = client.answers.get("c", "m")
    assert answer.parts[0].type == "DANCE" and answer.error is not None and answer.error.code == "OF_LATER"
    for _attempt in range(2):
        with pytest.raises(ResponseFormError):
            client.answers.get("c", "m")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_frames_are_the_same_however_the_bytes_are_cut(end: str) -> None:
    text = "retry: 20\nevent: message\ndata: {\ndata: žluť}\nid: 1\n\n: beat\n\nevent: completed\ndata: b\nid: 2\n\n"
    content = text.replace("\n", end).encode()

    def read(pieces: list[bytes]) -> list[Any]:
        frames = FrameDecoder()
        found = [(one.event, one.data, one.id) for piece in pieces for one in frames.feed(piece)]
        assert frames.retry_seconds == 0.02
        return found

    expected = [("message", "{\nžluť}", "1"), ("completed", "b", "2")]
    cuts: Callable[[int], list[bytes]] = lambda at: [content[:at], content[at:]]  # noqa: E731
    assert read([content]) == expected
    assert read([bytes([byte]) for byte in content]) == expected
    assert all(read(cuts(at)) == expected for at in range(1, len(content)))
