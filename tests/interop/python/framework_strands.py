"""strands-agents: A2AAgent.

Version 1.62 forgets task and context between prompts, and it always streams. A user who wants something else has to give it a client
factory: the parameter is deprecated, but nothing else lets one choose how replies come or add an interceptor that names the ids.
"""

from contextlib import asynccontextmanager

import httpx
from a2a.client import ClientCallInterceptor, ClientConfig, ClientFactory
from strands.agent.a2a_agent import A2AAgent

WAYS = {"streaming": {"streaming": True}, "not streaming": {"streaming": False}}
CANNOT = {}


class Ids(ClientCallInterceptor):
    """Adds ids to messages."""

    ids = {}

    async def intercept(self, method_name, request_payload, http_kwargs, agent_card, context):
        request_payload["params"]["message"].update(self.ids)
        return request_payload, http_kwargs


class Factory(ClientFactory):
    def create(self, card):
        return super().create(card, interceptors=[self.named])


@asynccontextmanager
async def talk(url, streaming):
    async with httpx.AsyncClient(timeout=None) as http:
        factory = Factory(ClientConfig(httpx_client=http, streaming=streaming))
        factory.named = Ids()
        agent = A2AAgent(url, a2a_client_factory=factory)
        task = None

        async def say(text, to):
            nonlocal task
            if task:
                factory.named.ids = {"contextId": task.context_id, **({"taskId": task.id} if to == "task" else {})}
            async for event in agent.stream_async(text):
                if "result" in event:
                    return "".join(block["text"] for block in event["result"].message["content"])
                task, _ = event["event"]

        yield say
