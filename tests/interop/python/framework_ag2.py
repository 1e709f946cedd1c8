"""AG2: an agent whose model is a remote A2A agent.

Questions reach a hook while the prompt is being worked on; the answer always names the task. From the second prompt on, messages have
the conversation so far as a data part beside the text.
"""

import asyncio
from contextlib import asynccontextmanager

from ag2 import Agent
from ag2.a2a import A2AConfig

WAYS = {
    "JSON-RPC, streaming": {"prefer": "jsonrpc", "streaming": True},
    "JSON-RPC, not streaming": {"prefer": "jsonrpc", "streaming": False},
    "REST, streaming": {"prefer": "rest", "streaming": True},
    "REST, not streaming": {"prefer": "rest", "streaming": False},
}
CANNOT = {"a call approved with the context's id alone": "version 1.2 always names the task"}


@asynccontextmanager
async def talk(url, **ways):
    shown, answers = asyncio.Queue(), asyncio.Queue()

    async def ask(event):
        await shown.put(event.content)
        return await answers.get()

    agent = Agent("remote", config=A2AConfig(card_url=url, **ways), hitl_hook=ask)
    reply = None

    async def prompt(text):
        nonlocal reply
        reply = await (reply or agent).ask(text)
        await shown.put(reply.body)

    async with asyncio.TaskGroup() as group:

        async def say(text, to):
            if to:
                await answers.put(text)
            else:
                group.create_task(prompt(text))
            return await shown.get()

        yield say
