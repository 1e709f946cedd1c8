"""google-adk 1 and 2: RemoteA2aAgent in a runner with a session.

A question comes as a call of a function that the framework invents; its argument has the text. The user answers with the result of
the call or with a text. Version 2.13 names the task with both, version 1.39 only with a result. Version 1.39 also shows the user's
prompt as a thought before a streamed answer. Without streaming both show no question if the agent said something before it.
"""

from contextlib import asynccontextmanager

import httpx
from a2a.client import ClientConfig, ClientFactory
from google.adk.a2a.agent.config import A2aRemoteAgentConfig, RequestInterceptor
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.adk.version import __version__
from google.genai.types import Content, FunctionResponse, Part

WAYS = {"streaming": {"streaming": True}, "not streaming": {"streaming": False}}
CANNOT = {}
NAMES_TASK = not __version__.startswith("1.")


@asynccontextmanager
async def talk(url, streaming):
    asked = named = None

    async def name_context_only(_context, message, parameters):
        if named == "context":
            message.ClearField("task_id")
        return message, parameters

    interceptors = [RequestInterceptor(before_request=name_context_only)] if NAMES_TASK else []
    async with httpx.AsyncClient(timeout=None) as http:
        agent = RemoteA2aAgent(
            name="remote",
            agent_card=f"{url}/.well-known/agent-card.json",
            a2a_client_factory=ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)),
            config=A2aRemoteAgentConfig(request_interceptors=interceptors),
        )
        runner = InMemoryRunner(agent=agent, app_name="interop")
        session = await runner.session_service.create_session(app_name="interop", user_id="user")

        async def say(text, to):
            nonlocal asked, named
            named = to
            said = Part(text=text)
            if to == "task" and not NAMES_TASK:
                said = Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"result": text}))
            message = Content(role="user", parts=[said])
            shown = ""
            async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
                shown += event.error_message or ""
                for part in event.content.parts if event.content and event.content.parts else []:
                    asked = part.function_call
                    shown += asked.args["input_required"] if asked else "" if part.thought else part.text or ""
            return shown

        yield say
