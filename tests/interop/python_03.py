"""The Python A2A SDK, version 0.3, against a running server.

    python_03.py URL WORKSPACE

Every step uses the client as its documentation shows it, and checks what a user of it would see. The agent is scripted
(agent.script.json). Prints a line for each step, and fails if one of them did.
"""

import asyncio
import sys
import traceback
import uuid
from pathlib import Path

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import DataPart, Message, Part, Role, TaskIdParams, TaskQueryParams, TaskState, TextPart

PATIENCE = 60.0


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def message(*parts, task=None):
    return Message(
        role=Role.user,
        message_id=str(uuid.uuid4()),
        parts=[Part(root=part) for part in parts],
        task_id=task.id if task else None,
        context_id=task.context_id if task else None,
    )


def say(text, task=None):
    return message(TextPart(text=text), task=task)


def answer(task, call, outcome):
    return message(DataPart(data={"callId": call, "outcome": outcome}), task=task)


def parts_of(update):
    said = update.status.message if update is not None and update.kind == "status-update" else None
    return [part.root for part in said.parts] if said else []


def texts_of(events):
    """What the agent said in a stream, joined."""
    return "".join(part.text for _, update in events for part in parts_of(update) if part.kind == "text")


def data_of(events):
    return [part.data for _, update in events for part in parts_of(update) if part.kind == "data"]


def everything_said(task):
    """All text a task holds: its status, its history and its artifacts."""
    said = [task.status.message] if task.status.message else []
    owners = [*said, *(task.history or []), *(task.artifacts or [])]
    return [part.root.text for owner in owners for part in owner.parts if part.root.kind == "text"]


async def all_of(stream):
    return [event async for event in stream]


def expect_end(events, state, what):
    _, last = events[-1]
    expect(last is not None and last.kind == "status-update", f"{what}: ends with a status, not {last}")
    expect(last.final is True, f"{what}: its last event is final")
    expect(last.status.state == state, f"{what}: ends {state}, not {last.status.state}")


async def expect_fault(call, code, what):
    try:
        found = await call
    except A2AClientJSONRPCError as error:
        expect(error.error.code == code, f"{what}: code {code}, not {error.error}")
    else:
        raise AssertionError(f"{what}: should fail with {code}, but gave {found}")


class Session:
    def __init__(self, http, card, workspace):
        self.streaming = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        self.blocking = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        self.card = card
        self.workspace = Path(workspace)


async def the_card(session):
    card = session.card
    expect(card.name, "the card has a name")
    expect(card.protocol_version.startswith("0.3"), f"protocol 0.3, not {card.protocol_version}")
    expect(card.capabilities.streaming is True, "the card offers streaming")
    expect(card.skills, "the card names a skill")


async def a_blocking_send(session):
    [(task, _)] = await all_of(session.blocking.send_message(say("say hello")))
    expect(task.status.state == TaskState.input_required, f"waits for the next prompt, not {task.status.state}")
    expect("Hello from the script." in everything_said(task), f"the whole answer is in {everything_said(task)}")


async def a_stream_and_its_task(session):
    events = await all_of(session.streaming.send_message(say("say hello")))
    first, update = events[0]
    expect(update is None, "the first event is the task")
    expect(texts_of(events) == "Hello from the script.", f"all text, in order: {texts_of(events)!r}")
    expect_end(events, TaskState.input_required, "a turn")
    expect({task.id for task, _ in events} == {first.id}, "all events are about one task")

    task = await session.streaming.get_task(TaskQueryParams(id=first.id))
    expect(task.id == first.id and task.context_id == first.context_id, "the same task is found again")
    expect(task.status.state == TaskState.input_required, f"its state is the last one, not {task.status.state}")
    expect("say hello" in everything_said(task), f"its history has the prompt: {everything_said(task)}")

    again = await all_of(session.streaming.send_message(say("say hello", task=first)))
    expect(texts_of(again) == "Hello from the script.", "a second turn in the same task is answered")
    expect({task.id for task, _ in again} == {first.id}, "a second turn makes no second task")


async def a_cancelled_turn(session):
    events = []
    async for event in session.streaming.send_message(say("take for ever")):
        if not any(seen for seen in events if parts_of(seen[1])) and parts_of(event[1]):
            cancelled = await session.streaming.cancel_task(TaskIdParams(id=event[0].id))
            expect(cancelled.status.state == TaskState.canceled, f"cancelled, not {cancelled.status.state}")
        events.append(event)
    expect_end(events, TaskState.canceled, "a cancelled turn")
    task = TaskIdParams(id=events[0][0].id)
    await expect_fault(session.streaming.cancel_task(task), -32002, "cancelling what is cancelled")


async def a_second_reader(session):
    """One that joins while the agent works sees the task as it is, and then what the first one sees."""
    first, second = [], None
    async for event in session.streaming.send_message(say("pause in the middle")):
        first.append(event)
        if second is None and parts_of(event[1]):
            joined = session.streaming.resubscribe(TaskIdParams(id=event[0].id))
            second = asyncio.create_task(all_of(joined))
    second = await second
    expect(second[0][1] is None, "the first event of a subscription is the task")
    expect(second[0][0].id == first[0][0].id, "and it is the same task")
    expect(texts_of(first) == "First half, second half.", f"the first reader has all: {texts_of(first)!r}")
    expect(texts_of(second) == "second half.", f"the second one the rest: {texts_of(second)!r}")
    expect_end(first, TaskState.input_required, "the first reader's stream")
    expect_end(second, TaskState.input_required, "the second reader's stream")


async def asked(session):
    events = await all_of(session.streaming.send_message(say("write the file please")))
    expect_end(events, TaskState.input_required, "a turn that asks")
    calls = [data["request"]["callId"] for data in data_of(events) if data.get("status") == "awaiting_approval"]
    expect(len(calls) == 1, f"one call is asked for, not {calls}")
    return events[0][0], calls[0]


async def a_refused_call(session):
    file = session.workspace / "interop.txt"
    task, call = await asked(session)
    events = await all_of(session.streaming.send_message(answer(task, call, "cancel")))
    expect("cancelled" in [data.get("status") for data in data_of(events)], "the call is shown as cancelled")
    expect(not file.exists(), "a refused call does nothing")


async def an_approved_call(session):
    file = session.workspace / "interop.txt"
    task, call = await asked(session)
    expect(not file.exists(), "nothing is written before the answer")
    events = await all_of(session.streaming.send_message(answer(task, call, "proceed_once")))
    expect("success" in [data.get("status") for data in data_of(events)], "the call is shown to succeed")
    expect(texts_of(events) == "The file is dealt with.", f"the agent goes on: {texts_of(events)!r}")
    expect_end(events, TaskState.input_required, "the approved turn")
    expect(file.read_text() == "from the script\n", "the file is written")
    file.unlink()


async def faults(session):
    unknown = TaskQueryParams(id="no-such-task")
    await expect_fault(session.streaming.get_task(unknown), -32001, "an unknown task")


STEPS = [
    the_card,
    a_blocking_send,
    a_stream_and_its_task,
    a_cancelled_turn,
    a_second_reader,
    a_refused_call,
    an_approved_call,
    faults,
]


async def main(url, workspace):
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        session = Session(http, card, workspace)
        failed = 0
        for step in STEPS:
            name = step.__name__.replace("_", " ")
            try:
                await asyncio.wait_for(step(session), PATIENCE)
                print(f"python 0.3: {name}: ok")
            except Exception:
                failed += 1
                print(f"python 0.3: {name}: FAILED\n{traceback.format_exc()}")
        return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(*sys.argv[1:])))
