"""Microsoft's agent-framework-a2a: A2AAgent with a session."""

from contextlib import asynccontextmanager

import httpx
from a2a.client import A2ACardResolver
from agent_framework import AgentSession
from agent_framework_a2a import A2AAgent

WAYS = {"streaming": {"stream": True}, "not streaming": {"stream": False}}
CANNOT = {}


@asynccontextmanager
async def talk(url, stream):
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
    session = AgentSession()
    async with A2AAgent(agent_card=card) as agent:

        async def say(text, to):
            if to == "context":
                session.service_session_id = session.service_session_id["context_id"]
            if stream:
                return "".join([update.text async for update in agent.run(text, session=session, stream=True)])
            return (await agent.run(text, session=session)).text

        yield say
