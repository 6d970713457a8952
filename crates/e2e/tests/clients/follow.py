"""Prints the pieces of an answer's text as they are read, and finally the whole text: a line of JSON each."""

import asyncio
import json
import sys

from causerie import AsyncCauserie, Causerie


def tell(**what):
    print(json.dumps(what), flush=True)


def follow(url, key, chat, message):
    with Causerie(base_url=url, api_key=key) as client, client.answers.resume(chat, message) as stream:
        for piece in stream.text:
            tell(piece=piece)
        tell(text=client.answers.get(chat, message).text)


async def follow_async(url, key, chat, message):
    async with AsyncCauserie(base_url=url, api_key=key) as client:
        async with client.answers.resume(chat, message) as stream:
            async for piece in stream.text:
                tell(piece=piece)
        tell(text=(await client.answers.get(chat, message)).text)


mode, *arguments = sys.argv[1:]
if mode == "sync":
    follow(*arguments)
else:
    asyncio.run(follow_async(*arguments))
