"""What a Python client of A2A can do with our agent, as steps that run for one version of the SDK over both bindings.

    steps.py VERSION URL WORKSPACE

Each step uses the client as its documentation shows it and checks what its user would see. The agent is scripted
(agent.script.json). Prints a line for each step, and fails if one of them did.

The versions differ in a few conventions, which the SDK modules declare:

- A stream of 1.0 always starts with the task; one of 0.3 only if the request did not name it.
- Only 1.0 can list tasks; only its client can list and delete push configurations.
- A cancelled task can be cancelled again in 1.0. In 0.3 that is an error.
- A webhook registered through 0.3 gets the whole task, one of 1.0 what has changed.
"""

import asyncio
import importlib
import sys
import traceback
from pathlib import Path

import httpx
from common import BINDINGS, TASK_NOT_CANCELABLE, TASK_NOT_FOUND, Hook, expect, same
from webhook import Receiver

PATIENCE = 30.0


class Fixture:
    """What a step uses: one client, one server, one webhook receiver."""

    def __init__(self, sdk, binding, workspace, receiver):
        self.sdk = sdk
        self.binding = binding
        self.file = Path(workspace) / "interop.txt"
        self.receiver = receiver

    def expect_stream(self, events, task, state, what):
        """Checks the stream of a message to `task`, or of one that creates a task."""
        first, last = events[0], events[-1]
        starts_with_task = task is None or self.sdk.streams_start_with_task
        same(first.about == "task", starts_with_task, f"{what}: starts with the task")
        same([event for event in events[1:] if event.about == "task"], [], f"{what}: and has it nowhere else")
        same({(event.task, event.context) for event in events}, {(first.task, first.context)}, f"{what}: one task")
        same((last.about, last.state), ("status", state), f"{what}: its end")
        if last.final is not None:
            marks = [event.final for event in events if event.about == "status"]
            same(marks, [False] * (len(marks) - 1) + [True], f"{what}: only the last event is final")


async def all_of(stream):
    return [event async for event in stream]


def said(events):
    return "".join(event.said for event in events)


async def expect_fault(fixture, fault, call, what):
    try:
        found = await call
    except Exception as error:
        expect(fixture.sdk.shows(error, fault), f"{what}: {fault.name}, not {error!r}")
    else:
        raise AssertionError(f"{what}: should fail with {fault.name}, but gave {found}")


async def the_card(fixture):
    card = await fixture.sdk.card()
    expect(card.name, "the card has a name")
    expect(card.streaming, "the card offers streaming")
    expect(card.push, "the card offers push notifications")
    expect(card.skills, "the card names a skill")
    expect(fixture.binding in card.bindings, f"{fixture.binding} is among {card.bindings}")


async def a_send_that_waits(fixture):
    task = await fixture.sdk.send("say hello")
    same(task.state, "completed", "the turn is over")
    expect("Hello from the script." in task.texts, f"the whole answer is in {task.texts}")


async def a_send_that_does_not_wait(fixture):
    sdk = fixture.sdk
    task = await sdk.send("take for ever", wait=False)
    expect(task.state in ("submitted", "working"), f"the turn goes on, it is not {task.state}")
    same((await sdk.get(task.id)).id, task.id, "the task can be asked for")
    same((await sdk.cancel(task.id)).state, "canceled", "and cancelled")


async def a_stream_and_its_task(fixture):
    sdk = fixture.sdk
    events = await all_of(sdk.stream("say hello"))
    fixture.expect_stream(events, None, "completed", "a turn")
    same(said(events), "Hello from the script.", "all text, in order")
    same([event.chunk for event in events if event.chunk], [("answer-1", False, True)], "the answer is one artifact, whole")

    task = await sdk.get(events[0].task)
    same((task.id, task.context), (events[0].task, events[0].context), "the same task is found again")
    same(task.state, "completed", "its state is the last one")
    expect({"say hello", "Hello from the script."} <= set(task.texts), f"prompt and answer are in {task.texts}")

    again = await all_of(sdk.stream("say hello", task))
    same(said(again), "Hello from the script.", "the conversation goes on")
    same(again[0].context, task.context, "in its context")
    expect(again[0].task != task.id, "a second turn is another task")


async def a_cancelled_turn(fixture):
    sdk = fixture.sdk
    events = []
    async for event in sdk.stream("take for ever"):
        if event.state == "working":
            same((await sdk.cancel(event.task)).state, "canceled", "the answer to a cancel")
        events.append(event)
    fixture.expect_stream(events, None, "canceled", "a cancelled turn")
    again = sdk.cancel(events[0].task)
    if sdk.cancels_twice:
        same((await again).state, "canceled", "the answer to a second cancel")
    else:
        await expect_fault(fixture, TASK_NOT_CANCELABLE, again, "cancelling what is cancelled")


async def a_second_reader(fixture):
    """A client that subscribes during a turn gets the task, and then the same events as the first client."""
    first, second = [], None
    async for event in fixture.sdk.stream("pause in the middle"):
        first.append(event)
        if second is None and event.state == "working":
            second = asyncio.create_task(all_of(fixture.sdk.join(event.task)))
    second = await second
    fixture.expect_stream(first, None, "completed", "the first reader's stream")
    fixture.expect_stream(second, None, "completed", "the second reader's stream")
    same(second[0].task, first[0].task, "it is the same task")
    same((said(first), said(second)), ("First half, second half.",) * 2, "both have all")


async def asked(fixture):
    """A turn that asks for approval to write a file. Returns the task."""
    events = await all_of(fixture.sdk.stream("write the file please"))
    fixture.expect_stream(events, None, "input-required", "a turn that asks")
    expect("Reply with yes, no" in events[-1].said, f"the question says how to answer: {events[-1].said}")
    return await fixture.sdk.get(events[0].task)


async def a_refused_call(fixture):
    task = await asked(fixture)
    events = await all_of(fixture.sdk.stream("no", task))
    fixture.expect_stream(events, task, "completed", "a refused turn")
    expect(not fixture.file.exists(), "a refused call does nothing")


async def an_approved_call(fixture):
    task = await asked(fixture)
    expect(not fixture.file.exists(), "nothing is written before the answer")
    events = await all_of(fixture.sdk.stream("yes", task))
    fixture.expect_stream(events, task, "completed", "the approved turn")
    same(said(events), "The file is dealt with.", "the agent goes on")
    same(fixture.file.read_text(), "from the script\n", "the file is written")
    fixture.file.unlink()


async def the_list(fixture):
    """Three tasks of one context, listed in pages, newest first, and by state."""
    sdk = fixture.sdk
    first = await sdk.send("say hello")
    second = await sdk.send("say hello", first)
    third = await sdk.send("write the file please", second)
    newest_first = [third.id, second.id, first.id]

    page, rest, total = await sdk.list(first.context, size=2)
    same(([task.id for task in page], total), (newest_first[:2], 3), "the first page")
    expect(rest, "there is a second page")
    page, rest, total = await sdk.list(first.context, size=2, page=rest)
    same(([task.id for task in page], rest, total), (newest_first[2:], "", 3), "the last page")

    page, _, _ = await sdk.list(first.context, state="completed", artifacts=True)
    same([(task.id, task.artifacts) for task in page], [(second.id, 1), (first.id, 1)], "completed, with artifacts")
    page, _, _ = await sdk.list(first.context, state="input-required")
    same([(task.id, task.artifacts) for task in page], [(third.id, 0)], "waiting, without artifacts")
    await sdk.cancel(third.id)


async def the_hooks_of_a_task(fixture):
    """Webhook configurations can be set, read, listed and deleted; the remaining one gets the further updates of the task."""
    sdk, receiver = fixture.sdk, fixture.receiver
    task = await asked(fixture)
    kept = Hook(receiver.url(), id="kept", token="a token", credentials="secret")
    dropped = Hook(receiver.url(), id="dropped")
    same(await sdk.set_hook(task.id, kept), kept, "what was set")
    same(await sdk.set_hook(task.id, dropped), dropped, "a second one")
    same(await sdk.get_hook(task.id, "kept"), kept, "what is read")
    await expect_fault(fixture, TASK_NOT_FOUND, sdk.get_hook(task.id, "no such hook"), "reading an unknown one")
    if sdk.has_all_hook_calls:
        listed = await sdk.list_hooks(task.id)
        same(sorted(listed, key=lambda hook: hook.id), [dropped, kept], "all that were set")
        await sdk.delete_hook(task.id, "dropped")
        same(await sdk.list_hooks(task.id), [kept], "what is left")
        await expect_fault(fixture, TASK_NOT_FOUND, sdk.get_hook(task.id, "dropped"), "reading a deleted one")

    await all_of(sdk.stream("no", task))
    await expect_told(fixture, kept, task)
    if sdk.has_all_hook_calls:
        same(receiver.at(dropped.url), [], "a deleted one is told nothing")


async def a_hook_in_the_request(fixture):
    """A webhook that is set with the prompt gets all updates of its turn."""
    hook = Hook(fixture.receiver.url(), id="inline", token="another token", credentials="another secret")
    task = await fixture.sdk.send("say hello", hook=hook)
    events = await expect_told(fixture, hook, task)
    if not fixture.sdk.push_is_whole_task:
        expect("working" in [event.state for event in events], f"the start is told: {events}")
        same(said(events), "Hello from the script.", "the answer is told, whole")


async def expect_told(fixture, hook, task):
    """Waits until a webhook got the end of the turn, and checks all its deliveries."""
    sdk = fixture.sdk

    def ended(deliveries):
        return deliveries and sdk.delivered(deliveries[-1].body).state == "completed"

    deliveries = await fixture.receiver.until(hook.url, ended)
    ids = []
    for delivery in deliveries:
        headers = delivery.headers
        same(headers.get("x-a2a-notification-token"), hook.token, "the token")
        same(headers.get("authorization"), f"Bearer {hook.credentials}", "the credentials")
        same(headers.get("content-type"), sdk.push_media_type, "the type of the body")
        about, _, seq = headers.get("x-a2a-event-id", "").rpartition(":")
        same(about, task.id, "the event's id names the task")
        ids.append(int(seq))
    same(ids, sorted(set(ids)), "the events' ids rise")
    events = [sdk.delivered(delivery.body) for delivery in deliveries]
    same({(event.task, event.context) for event in events}, {(task.id, task.context)}, "all is about the task")
    return events


async def faults(fixture):
    sdk = fixture.sdk
    await expect_fault(fixture, TASK_NOT_FOUND, sdk.get("no-such-task"), "an unknown task")
    await expect_fault(fixture, TASK_NOT_FOUND, sdk.cancel("no-such-task"), "cancelling an unknown task")
    hook = Hook(fixture.receiver.url(), id="hook")
    await expect_fault(fixture, TASK_NOT_FOUND, sdk.set_hook("no-such-task", hook), "a hook of an unknown task")
    over = await sdk.send("take for ever", wait=False)
    over = await sdk.cancel(over.id)
    fault = sdk.terminal_task_fault
    await expect_fault(fixture, fault, sdk.send("say hello", over), "a prompt to a task that is over")
    await expect_fault(fixture, fault, all_of(sdk.stream("say hello", over)), "the same as a stream")


STEPS = [
    the_card,
    a_send_that_waits,
    a_send_that_does_not_wait,
    a_stream_and_its_task,
    a_cancelled_turn,
    a_second_reader,
    a_refused_call,
    an_approved_call,
    the_list,
    the_hooks_of_a_task,
    a_hook_in_the_request,
    faults,
]


async def run_steps(version, url, workspace):
    """Runs the steps over each binding. Returns the number of failed steps."""
    module = importlib.import_module({"0.3": "sdk_03", "1": "sdk_1"}[version])
    failed = 0
    for binding in BINDINGS:
        async with httpx.AsyncClient(timeout=PATIENCE) as http, Receiver() as receiver:
            sdk = await module.Sdk().connect(http, url, binding)
            fixture = Fixture(sdk, binding, workspace, receiver)
            for step in STEPS:
                if step is the_list and not sdk.has_list:
                    continue
                name = f"python {version} {binding}: {step.__name__.replace('_', ' ')}"
                try:
                    await asyncio.wait_for(step(fixture), PATIENCE)
                    print(f"{name}: ok")
                except Exception:
                    failed += 1
                    print(f"{name}: FAILED\n{traceback.format_exc()}")
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(1 if asyncio.run(run_steps(*sys.argv[1:])) else 0)
