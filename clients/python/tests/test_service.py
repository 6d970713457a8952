"""What the client does with a running service."""

import dataclasses
import io
import os
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

import causerie
from causerie import (
    AsyncCauserie,
    AuthenticationError,
    BadRequestError,
    Causerie,
    FileSource,
    NotFoundError,
    PermissionDeniedError,
    TextPart,
    UserMessage,
)
from causerie._decode import camel

LEASE = b"Lease.\n\nThe rent is due on the fifth day of each month.\n\nThe deposit is two rents.\n"
QUESTION = "On which day is the rent due?"


def test_machine_and_catalogs(client: Causerie) -> None:
    assert client.vm.get().status in ("RUNNING", "STOPPED", "STARTING", "STOPPING")
    assert client.vm.start().status == "STARTING"
    [default] = [model for model in client.catalogs.models(language="en") if model.default]
    assert default.label and default.provider
    assert {one.id: one.label for one in client.catalogs.jurisdictions(language="en")}["CZ"]
    assert "causerie:contract-review" in [skill.full_name for skill in client.catalogs.skills()]
    assert "causerie:assistant" in [agent.full_name for agent in client.catalogs.agents()]


def test_files_come_from_paths_bytes_and_open_files(client: Causerie, tmp_path: Path) -> None:
    path = tmp_path / "léase 1%.txt"
    path.write_bytes(LEASE)
    assert client.directories.create("/py").path == "/py"
    uploaded = [
        client.files.upload(path, destination="/py"),
        client.files.upload(LEASE, name="bytes?#.txt", destination="/py"),
        client.files.upload(io.BytesIO(LEASE), name="stream.txt", destination="/py"),
    ]
    with path.open("rb") as file:
        file.seek(6)
        uploaded.append(client.files.upload(file, name="file.txt", destination="/py"))
    assert [file.size for file in uploaded] == [len(LEASE)] * 4
    listed = client.directories.list("/py").entries
    assert {entry.path for entry in listed} == {file.path for file in uploaded}
    assert all(isinstance(entry.modified_time, datetime) for entry in listed)
    assert [client.files.download(file.path) for file in uploaded] == [LEASE] * 4
    assert client.files.save(uploaded[0].path, tmp_path / "saved") == len(LEASE)
    assert (tmp_path / "saved").read_bytes() == LEASE
    temporary = client.files.upload(LEASE, name="t.txt", temporary=True)
    assert "/.tmp/" in temporary.path
    assert client.files.download("/py/../py/" + uploaded[2].name) == LEASE
    for outside in ("..", "../vm", "/py/../../chats/1"):
        for call in (client.files.download, client.files.delete, client.directories.list, client.directories.create):
            with pytest.raises(PermissionDeniedError):
                call(outside)
    with pytest.raises(NotFoundError):
        client.chats.get("..")
    client.files.delete(temporary.path)
    client.files.delete("/py", recursive=True)
    with pytest.raises(NotFoundError):
        client.directories.list("/py")
    with pytest.raises(ValueError, match="name"):
        client.files.upload(LEASE)


def test_a_question_is_answered_streamed_and_continued(client: Causerie) -> None:
    file = client.files.upload(LEASE, name="lease.txt")
    with client.stream(QUESTION, file_paths=[file.path]) as stream:
        text = "".join(stream.text)
    answer = stream.answer
    assert answer is not None and answer.is_completed and text == answer.text and "fifth day" in text
    assert answer.error is None and answer.created_at.utcoffset() is not None
    cited = [one.source for part in answer.parts if isinstance(part, TextPart) for one in part.citations]
    assert any(isinstance(source, FileSource) and source.path == file.path for source in cited)
    again = list(client.answers.resume(answer.chat_id, answer.id))
    assert [(event.event, event.answer) for event in again] == [("completed", answer)]
    ended = list(client.answers.resume(answer.chat_id, answer.id, last_event_id=again[0].id))
    assert [(event.event, event.answer) for event in ended] == [("completed", answer)]

    more = client.answers.wait(client.ask("And the deposit?", chat_id=answer.chat_id, wait=1))
    assert client.answers.get(answer.chat_id, more.id) == more
    detail = client.chats.get(answer.chat_id)
    assert [message.role for message in detail.messages if not hasattr(message, "fields")] == ["USER", "ASSISTANT"] * 2
    assert isinstance(detail.messages[0], UserMessage) and detail.messages[0].file_paths == [file.path]
    with client.chats.watch(answer.chat_id) as events:
        assert next(iter(events)).answer == more
    assert client.chats.update(answer.chat_id, title="Rent", pinned=True).title == "Rent"
    assert client.chats.stop(answer.chat_id).status == "completed"
    client.chats.delete(answer.chat_id)
    with pytest.raises(NotFoundError) as raised:
        client.chats.get(answer.chat_id)
    assert raised.value.code == "NOT_FOUND" and raised.value.request_id


def test_pages_are_walked_through(client: Causerie) -> None:
    asked = {client.ask("Hello", wait=20).chat_id for _ in range(5)}
    listed = [chat.chat_id for chat in client.chats.list(page_size=2)]
    assert asked <= set(listed) and len(listed) == len(set(listed)) == client.chats.page(limit=1).total_count
    for chat_id in listed:
        client.chats.delete(chat_id)
    assert list(client.chats.list()) == []


def test_a_question_is_asked_once_by_its_key(client: Causerie) -> None:
    key = str(uuid4())
    first = client.ask("Hello", idempotency_key=key)
    assert client.ask("Hello", idempotency_key=key).id == first.id
    assert client.ask("Hello").id != first.id


def test_types_have_the_fields_of_the_schema() -> None:
    url = os.environ["CAUSERIE_URL"]
    schemas = httpx.get(f"{url}/openapi.json").json()["components"]["schemas"]
    without = set()
    for name, schema in schemas.items():
        if "properties" not in schema:
            continue
        shape = getattr(causerie, name, None)
        if shape is None:
            without.add(name)
            continue
        fields = {camel(field.name): field.default is dataclasses.MISSING for field in dataclasses.fields(shape)}
        if name == "StreamEvent":
            assert set(fields) | {"data", "retry"} == set(schema["properties"]) | {"answer"}
            continue
        assert fields == {field: field in schema["required"] for field in schema["properties"]}, name
    # What is sent, and what becomes an exception.
    sent = {"CallFailure", "CallOutput", "ChatChange", "ClientTool", "Question", "QuestionSetting", "UploadForm"}
    assert without == sent | {"ErrorResponse"}


def test_refusals_have_types(client: Causerie) -> None:
    with pytest.raises(BadRequestError) as raised:
        client.ask("Hello", model="clerk")
    assert raised.value.code == "UNKNOWN_MODEL" and "valid values" in raised.value.message
    with Causerie(api_key="api-none") as stranger, pytest.raises(AuthenticationError):
        stranger.vm.get()


@pytest.mark.anyio
async def test_the_same_asynchronously(tmp_path: Path) -> None:
    async with AsyncCauserie() as client:
        path = tmp_path / "lease.txt"
        path.write_bytes(LEASE)
        file = await client.files.upload(path)
        assert await client.files.download(file.path) == LEASE
        assert await client.files.save(file.path, tmp_path / "saved") == len(LEASE)
        async with await client.stream(QUESTION, file_paths=[file.path]) as stream:
            text = "".join([piece async for piece in stream.text])
        assert stream.answer is not None and stream.answer.text == text and "fifth day" in text
        answer = await client.answers.wait(await client.ask("And the deposit?", chat_id=stream.answer.chat_id))
        assert await client.answers.resume(answer.chat_id, answer.id).until_done() == answer
        assert answer.chat_id in [chat.chat_id async for chat in client.chats.list()]
        await client.chats.delete(answer.chat_id)
        await client.files.delete(file.path)
        with pytest.raises(NotFoundError):
            await client.files.download(file.path)
        assert (await client.vm.get()).status
        assert await client.catalogs.skills()
