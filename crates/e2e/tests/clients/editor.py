"""Plays an editor with the library of the Agent Client Protocol, and prints what it got as a line of JSON."""

import asyncio
import json
import os
import sys

import acp
from acp.schema import EmbeddedResourceContentBlock, TextResourceContents


class Editor(acp.Client):
    """Collects the updates of sessions."""

    def __init__(self):
        self.updates = []
        self.answering = asyncio.Event()

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)
        if update.session_update == "agent_message_chunk":
            self.answering.set()

    def take_texts(self):
        """Returns the texts by kind of update, and forgets them."""
        texts = {}
        for update in self.updates:
            if update.session_update.endswith("_chunk"):
                kind = update.session_update.removesuffix("_chunk")
                texts[kind] = texts.get(kind, "") + update.content.text
            elif update.session_update.startswith("tool_call"):
                texts.setdefault("calls", []).append([update.title, update.status])
            elif update.session_update == "session_info_update":
                texts["title"] = update.title
        self.updates.clear()
        return texts


async def play(program, folder):
    got = {}
    editor = Editor()
    async with acp.spawn_agent_process(editor, program, "acp", env=dict(os.environ)) as (agent, _):
        started = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        got["version"] = started.protocol_version
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        got["model"] = session.config_options[0].current_value
        notes = TextResourceContents(uri="file:///notes.md", text="# Notes")
        prompt = [
            acp.text_block("Read "),
            EmbeddedResourceContentBlock(type="resource", resource=notes),
        ]
        done = await agent.prompt(session_id=session.session_id, prompt=prompt)
        got["first"] = [done.stop_reason, editor.take_texts()]
        editor.answering.clear()
        asked = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[acp.text_block("And then?")]))
        await editor.answering.wait()
        await agent.cancel(session_id=session.session_id)
        got["second"] = [(await asked).stop_reason, editor.take_texts()["agent_message"]]
        try:
            await agent.prompt(session_id="none", prompt=[acp.text_block("Hello")])
        except acp.RequestError as error:
            got["unknown"] = error.code
    async with acp.spawn_agent_process(editor, program, "acp", env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        listed = (await agent.list_sessions(cwd=folder)).sessions
        got["listed"] = [[known.session_id == session.session_id, known.title] for known in listed]
        await agent.load_session(session_id=session.session_id, cwd=folder, mcp_servers=[])
        got["loaded"] = editor.take_texts()
        await agent._conn.send_request("session/delete", {"sessionId": session.session_id})
        got["left"] = len((await agent.list_sessions()).sessions)
    print(json.dumps(got))


asyncio.run(play(*sys.argv[1:]))
