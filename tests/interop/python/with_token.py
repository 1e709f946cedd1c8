"""A Python client with a bearer token, through a proxy with TLS.

    with_token.py CLIENT URL WORKSPACE

CLIENT is a version of the A2A SDK, or a framework. The token is in the variable TOKEN, the certificate in SSL_CERT_FILE. A client only
gets its token; it reads in the agent card how to send it. Each client sends a prompt and approves a call.
"""

import asyncio
import os
import ssl
import sys
from pathlib import Path

import httpx
from common import BINDINGS, expect, same

TOKEN = os.environ["TOKEN"]


def http(**options):
    return httpx.AsyncClient(timeout=30, verify=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]), **options)


async def shown(url):
    """The header field with the token, according to the card."""
    async with http() as client:
        card = (await client.get(f"{url}/.well-known/agent-card.json")).json()
    for requirement in card["security"]:
        for name in requirement:
            match card["securitySchemes"][name]:
                case {"type": "http", "scheme": scheme} if scheme.lower() == "bearer":
                    return {"Authorization": f"Bearer {TOKEN}"}
                case {"type": "apiKey", "in": "header", "name": header}:
                    return {header: TOKEN}
    raise AssertionError(f"the card names no way to send a token: {card['security']}")


async def sdk(version, url, file):
    from a2a.client import AuthInterceptor, ClientConfig, ClientFactory, CredentialService

    sdk = __import__(f"sdk_{version.replace('.', '')}").Sdk

    class Credentials(CredentialService):
        async def get_credentials(self, scheme, _context):
            return TOKEN if scheme == "bearer" else None

    class Guarded(sdk):
        def _client(self, **config):
            factory = ClientFactory(ClientConfig(**self._base, **config))
            return factory.create(self._card, interceptors=[AuthInterceptor(Credentials())])

    for binding in BINDINGS:
        async with http() as client:
            stranger = await sdk().connect(client, url, binding)
            try:
                await stranger.send("say hello")
                expect(False, f"{binding}: refused without a token")
            except Exception as error:
                expect("401" in repr(error) or "credential" in repr(error), f"{binding}: a refusal, not {error!r}")
        # In version 0.3 the client sends no credentials over REST.
        given = {"headers": await shown(url)} if (version, binding) == ("0.3", "HTTP+JSON") else {}
        async with http(**given) as client:
            agent = await Guarded().connect(client, url, binding)
            told = [event async for event in agent.stream("say hello")]
            same("".join(event.said for event in told if event.said), "Hello from the script.", f"{binding}: hello")
            file.unlink(missing_ok=True)
            asked = await agent.send("write it please")
            same(asked.state, "input-required", f"{binding}: it asks")
            same((await agent.send("yes", asked)).state, "completed", f"{binding}: it is approved")
            expect(file.exists(), f"{binding}: the file is written")
            print(f"guarded, Python SDK {version}, {binding}: ok")


async def adk(url, file):
    from a2a.client import ClientConfig, ClientFactory
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, Part

    async with http(headers=await shown(url)) as client:
        from a2a.client import A2ACardResolver

        card = await A2ACardResolver(client, url).get_agent_card()
        factory = ClientFactory(ClientConfig(httpx_client=client, streaming=True))
        agent = RemoteA2aAgent(name="remote", agent_card=card, a2a_client_factory=factory)
        runner = InMemoryRunner(agent=agent, app_name="guarded")
        session = await runner.session_service.create_session(app_name="guarded", user_id="user")

        async def say(text):
            message, shown = Content(role="user", parts=[Part(text=text)]), ""
            async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
                shown += event.error_message or ""
                for part in event.content.parts if event.content and event.content.parts else []:
                    shown += "" if part.thought or part.function_call else part.text or ""
            return shown

        await converse("google-adk", say, file)


async def agent_framework(url, file):
    from a2a.client import A2ACardResolver
    from agent_framework import AgentSession
    from agent_framework_a2a import A2AAgent

    async with http(headers=await shown(url)) as client:
        card = await A2ACardResolver(client, url).get_agent_card()
        session = AgentSession()
        async with A2AAgent(agent_card=card, http_client=client) as agent:

            async def say(text):
                return (await agent.run(text, session=session)).text

            await converse("agent-framework", say, file)


async def converse(name, say, file):
    same(await say("say hello"), "Hello from the script.", f"{name}: hello")
    file.unlink(missing_ok=True)
    await say("write it please")
    await say("yes")
    expect(file.exists(), f"{name}: the file is written")
    print(f"guarded, {name}: ok")


client, url, workspace = sys.argv[1:]
file = Path(workspace) / "interop.txt"
match client:
    case "adk-2":
        asyncio.run(adk(url, file))
    case "agent-framework":
        asyncio.run(agent_framework(url, file))
    case version:
        asyncio.run(sdk(version, url, file))
