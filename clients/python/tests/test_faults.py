"""What the client does when the service, or what is in between, fails: played by a transport of its own."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from causerie import Causerie, ConnectionFailedError, RateLimitError, ResponseFormError, Retries, TextRevisedError
from causerie._stream import FrameDecoder

ANSWER = {"id": "m", "chatId": "c", "createdAt": "2026-11-21T09:30:00.000Z", "model": "x", "parts": []}
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


def test_a_text_that_was_revised_is_not_passed_off_as_its_continuation() -> None:
    client, _ = client_of([events(frame("One two", 1), frame("Three", 2), frame("Three.", 3, "completed"))])
    pieces = client.answers.resume("c", "m").text
    assert next(pieces) == "One two"
    with pytest.raises(TextRevisedError) as raised:
        next(pieces)
    assert raised.value.answer.text == "Three."


def test_a_stream_that_never_comes_is_given_up() -> None:
    client, seen = client_of([httpx.ConnectError("refused") for _ in range(9)])
    with pytest.raises(ConnectionFailedError):
        client.answers.resume("c", "m").until_done()
    assert len(seen) == 1 + QUICK.most


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
