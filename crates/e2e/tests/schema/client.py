"""Uses the interface through a client that was generated from its schema. Arguments: the service's URL and a key."""

import io
import json
import sys

from causerie_client import AuthenticatedClient
from causerie_client.api.catalogs import list_models
from causerie_client.api.conversations import (
    ask_question,
    change_chat,
    collect_answer,
    delete_chat,
    get_chat,
    list_chats,
    stream_answer,
)
from causerie_client.api.files import download_file, list_directory, upload_file
from causerie_client.api.machine import get_vm
from causerie_client.models import (
    Answer,
    AnswerStatus,
    AssistantMessage,
    ChatChange,
    EntryType,
    FileSource,
    KnownErrorCode,
    Question,
    TextPart,
    ToolPart,
    UploadForm,
    UserMessage,
)
from causerie_client.types import File

# The number of requests for an answer, each of which also waits for it.
COLLECTIONS_MAX = 12
LEASE = b"Lease.\n\nThe rent is due on the fifth day of each month.\n\nThe deposit is two rents.\n"


def main(url, key):
    client = AuthenticatedClient(base_url=url, token=key, prefix="", auth_header_name="X-Api-Key")
    stranger = AuthenticatedClient(base_url=url, token="api-none", prefix="", auth_header_name="X-Api-Key")
    assert get_vm.sync_detailed(client=stranger).status_code == 401
    assert any(model.default for model in list_models.sync(client=client))

    form = UploadForm(file=File(payload=io.BytesIO(LEASE), file_name="lease.txt"))
    uploaded = upload_file.sync(client=client, body=form)
    assert uploaded.path == "/uploads/lease.txt" and uploaded.size == len(LEASE), uploaded
    [entry] = list_directory.sync("/uploads", client=client).entries
    assert entry.type_ is EntryType.FILE and entry.path == uploaded.path, entry
    content = download_file.sync(uploaded.path, client=client)
    assert content.payload.read() == LEASE

    refused = ask_question.sync(client=client, body=Question(input_="Is it?", model="clerk"))
    assert refused.code is KnownErrorCode.UNKNOWN_MODEL, refused

    question = Question(input_="On which day is the rent due?", file_paths=[uploaded.path])
    answer = ask_question.sync(client=client, body=question)
    for _ in range(COLLECTIONS_MAX):
        assert isinstance(answer, Answer), answer
        if answer.status is AnswerStatus.COMPLETED:
            break
        answer = collect_answer.sync(answer.chat_id, answer.id, client=client, prefer="wait=10")
    assert answer.status is AnswerStatus.COMPLETED and "fifth day" in answer.text, answer
    assert any(isinstance(part, ToolPart) for part in answer.parts), answer.parts
    cited = [one.source for part in answer.parts if isinstance(part, TextPart) for one in part.citations]
    assert any(isinstance(source, FileSource) and source.path == uploaded.path for source in cited), cited

    # It reads whole bodies. A stream is read from the response of its call, with its type.
    call = stream_answer._get_kwargs(answer.chat_id, answer.id)
    with client.get_httpx_client().stream(**call) as response:
        data = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert Answer.from_dict(json.loads(data[-1])) == answer, data
    detail = get_chat.sync(answer.chat_id, client=client)
    assert [type(message) for message in detail.messages] == [UserMessage, AssistantMessage]
    assert change_chat.sync(answer.chat_id, client=client, body=ChatChange(pinned=True)).pinned
    assert list_chats.sync(client=client, limit=1).chats[0].chat_id == answer.chat_id
    assert delete_chat.sync_detailed(answer.chat_id, client=client).status_code == 204
    assert get_chat.sync(answer.chat_id, client=client).code is KnownErrorCode.NOT_FOUND


main(*sys.argv[1:])
