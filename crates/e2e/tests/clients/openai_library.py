"""Exercises the service by OpenAI's library for Python, and prints what it got as a line of JSON."""

import json
import sys

import openai

MODEL = "stand-in"


def ask(client, **more):
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], **more)


with openai.OpenAI(max_retries=2) as client:
    got = {"models": [model.id for model in client.models.list()]}
    got["model"] = client.models.retrieve(f"plain/{MODEL}").id
    whole = ask(client)
    got["whole"] = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens]
    with client.chat.completions.stream(
        model=MODEL,
        messages=[
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": whole.choices[0].message.content},
            {"role": "user", "content": "And again?"},
        ],
        stream_options={"include_usage": True},
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    got["stream"] = ["".join(deltas), final.choices[0].message.content, final.usage.total_tokens]
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    called = client.chat.completions.create(
        model=f"plain/{MODEL}", messages=[{"role": "user", "content": "Weather?"}], tools=tools
    )
    got["call"] = called.choices[0].message.tool_calls[0].function.name
    # The vendor fails once; the library asks again.
    got["retried"] = (
        client.chat.completions.create(model=f"plain/{MODEL}", messages=[{"role": "user", "content": "Hello"}])
        .choices[0]
        .message.content
    )
    first = client.responses.create(model=MODEL, input="One?", metadata={"case": "7"})
    second = client.responses.create(model=MODEL, input="Two?", previous_response_id=first.id)
    got["responses"] = [first.output_text, second.output_text, second.usage.total_tokens, first.metadata["case"]]
    got["responses"].append(first.conversation.id == second.conversation.id)
    with client.responses.stream(
        model=MODEL,
        input=[
            {"role": "user", "content": "Alone?"},
        ],
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    got["response_stream"] = ["".join(deltas), final.output_text, final.output[0].type, final.status]
    background = client.responses.create(model=MODEL, input="Later?", background=True)
    while background.status in ("queued", "in_progress"):
        background = client.responses.retrieve(background.id)
    got["background"] = [background.output_text, client.responses.cancel(background.id).status]
    with client.responses.stream(response_id=background.id) as stream:
        got["background"].append(stream.get_final_response().output_text)
    file = client.files.create(file=("lease.txt", b"The rent is due."), purpose="user_data")
    listed = [found.id == file.id for found in client.files.list()]
    got["file"] = [file.filename, client.files.content(file.id).read().decode(), listed]
    conversation = client.conversations.create()
    part = {"type": "input_file", "file_id": file.id}
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Read it."}, part]}
    read = client.responses.create(model=MODEL, input=[asked], conversation=conversation.id)
    items = [item.role for item in client.conversations.items.list(conversation.id, order="asc", limit=1)]
    inputs = [part.type for item in client.responses.input_items.list(read.id) for part in item.content]
    got["conversation"] = [read.conversation.id == conversation.id, items, inputs]
    client.conversations.update(conversation.id, metadata={"title": "Rent"})
    got["conversation"].append(client.conversations.retrieve(conversation.id).metadata)
    got["conversation"].append(client.conversations.delete(conversation.id).deleted)
    got["conversation"].append(client.files.delete(file.id).deleted)
    function = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}
    called = client.responses.create(model=f"plain/{MODEL}", input="Weather?", tools=[function])
    got["plain"] = [called.output[0].type, called.output[0].name]
    errors = {}
    try:
        client.responses.create(model=MODEL, input="One?", previous_response_id="resp_none")
    except openai.BadRequestError as error:
        errors["previous"] = [error.code, error.param, error.request_id is not None]
    try:
        client.chat.completions.create(model="none", messages=[{"role": "user", "content": "Hello"}])
    except openai.NotFoundError as error:
        errors["model"] = [error.code, error.param, error.request_id is not None]
    try:
        client.with_options(api_key="api-wrong").models.list()
    except openai.AuthenticationError as error:
        errors["key"] = [error.code, error.param, error.request_id is not None]
    try:
        client.chat.completions.create(model=MODEL, messages=[])
    except openai.BadRequestError as error:
        errors["messages"] = [error.code, error.param, error.request_id is not None]
    got["errors"] = errors
json.dump(got, sys.stdout)
