"""Calls the service by the Python SDK of the Model Context Protocol and prints what it got as one line of JSON."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


async def call(mode: str) -> dict:
    headers = {"Authorization": f"Bearer {os.environ['CAUSERIE_API_KEY']}"}
    progress = []

    async def record(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, message))

    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(os.environ["CAUSERIE_URL"] + "/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            tools = await client.list_tools()
            name = f"{mode}.txt"
            stored = await client.call_tool("upload_file", {"name": name, "text": "hello"})
            asked = await client.call_tool("ask", {"question": f"Hello {mode}?"}, progress_callback=record)
            refused = await client.call_tool("wait", {"answer_id": "x"})
            answer = asked.structured_content
            read = await client.call_tool("read_conversation", {"conversation_id": answer["conversation_id"]})
            resource = await client.read_resource(f"causerie://files/uploads/{name}")
            resources = await client.list_resources()
            templates = await client.list_resource_templates()
            try:
                await client.read_resource("causerie://files/none")
                missing = None
            except MCPError as error:
                missing = error.error.code
            return {
                "version": client.protocol_version,
                "server": client.server_info.name,
                "tools": [tool.name for tool in tools.tools],
                "stored": stored.structured_content,
                "answer": [answer["status"], answer["answer"], asked.is_error],
                "refused": [refused.is_error, refused.content[0].text.split(":")[0]],
                "read": len(read.structured_content["exchanges"]),
                "resource": resource.contents[0].text,
                "resources": [str(one.uri) for one in resources.resources if "files" in str(one.uri)],
                "templates": len(templates.resource_templates),
                "missing": missing,
                "progress": progress == sorted(progress) and len(progress) > 0,
            }


async def main() -> None:
    print(json.dumps([await call(mode) for mode in sys.argv[1:]]))


asyncio.run(main())
