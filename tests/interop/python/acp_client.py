"""The client of the Agent Client Protocol for Python, which starts the program itself.

    acp_client.py BINARY SCRIPT PLACE URL WORKSPACE
"""

import asyncio
import os
import sys
from pathlib import Path

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

binary, script, place, _, _ = sys.argv[1:]


class Client(acp.Client):
    def __init__(self):
        self.updates = []
        self.arrived = asyncio.Event()
        self.answer = None

    async def request_permission(self, options, session_id, tool_call, **_):
        option = await self.answer(options, session_id, tool_call)
        outcome = AllowedOutcome(outcome="selected", option_id=option) if option else DeniedOutcome(outcome="cancelled")
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        self.arrived.set()

    async def until(self, fits):
        while not any(fits(update) for update in self.updates):
            self.arrived.clear()
            await self.arrived.wait()

    def texts(self):
        return "".join(one.content.text for one in self.updates if one.session_update == "agent_message_chunk")


async def main():
    home = Path(place) / "acp"
    workspace = home / "workspace"
    for folder in ["workspace", "home"]:
        (home / folder).mkdir(parents=True, exist_ok=True)
    flags = ["acp", "--workspace", str(workspace), "--state-dir", str(home / "state"), "--script", script]
    env = {"PATH": os.environ["PATH"], "HOME": str(home / "home")}
    client = Client()
    async with acp.spawn_agent_process(client, binary, *flags, env=env) as (agent, process):
        assert (await agent.initialize(protocol_version=1)).protocol_version == 1
        session = (await agent.new_session(cwd=str(workspace), mcp_servers=[])).session_id

        def say(words):
            return agent.prompt(session_id=session, prompt=[acp.text_block(words)])

        assert (await say("say hello")).stop_reason == "end_turn"
        assert client.texts() == "Hello from the script.", client.updates

        async def allow(options, *_):
            return next(option.option_id for option in options if option.kind == "allow_once")

        client.answer = allow
        assert (await say("write it please")).stop_reason == "end_turn"
        assert (workspace / "interop.txt").read_text() == "from the script\n"

        async def cancel(_options, session_id, _call):
            await agent.cancel(session_id=session_id)
            return None

        client.answer = cancel
        assert (await say("write it please")).stop_reason == "cancelled"
        forever = asyncio.ensure_future(say("take for ever"))
        await client.until(lambda one: one.session_update == "agent_message_chunk" and one.content.text == "Starting.")
        await agent.cancel(session_id=session)
        assert (await forever).stop_reason == "cancelled"

        def shown(updates):
            left_out = ["user_message_chunk", "available_commands_update"]
            return [one.model_dump() for one in updates if one.session_update not in left_out]

        live, client.updates = shown(client.updates), []
        await agent.load_session(cwd=str(workspace), mcp_servers=[], session_id=session)
        assert shown(client.updates) == live
        listed = await agent.list_sessions(cwd=str(workspace))
        assert [one.session_id for one in listed.sessions] == [session]
        await agent.close_session(session_id=session)
        try:
            await say("say hello")
            raise AssertionError("it is closed")
        except acp.RequestError as error:
            assert error.code == -32002, error
    print("the client of ACP for Python: prompt, permission, cancellation, load")


asyncio.run(asyncio.wait_for(main(), 60))
