"""Holds the conversations of ../conversations.json with our agent through a Python framework, as the framework's users would.

    frameworks.py FRAMEWORK URL WORKSPACE

The module `framework_FRAMEWORK`, without the version if the name ends with one, adapts the framework. It has

    WAYS         the names of the ways to hold a conversation, each with the arguments that `talk` gets for it
    CANNOT       which conversations the framework cannot hold, and why
    talk(url, …) an asynchronous context manager: one conversation, as a function

The function, `say(text, to)`, is a coroutine that returns the texts that the user is shown. `to` is None for a new prompt. Otherwise the text
is an answer, and `to` says what it must name: "task" for the task and its context, "context" for the context alone, "open question" for
what the framework names by itself.

In the table, WRITE stands for its member `write`: the question that is asked before the file is written.

Besides what is shown, the messages must name what they should and ask for a stream or not (`recorder.py` writes that down), and the
server must have exactly the tasks that the table expects: completed, and in one context.
"""

import asyncio
import importlib
import json
import re
import sys
import traceback
import urllib.request
from pathlib import Path

from common import expect, same

PATIENCE = 30.0


def tasks_of(url):
    """All tasks of the server, as A2A 1.0 lists them."""
    request = urllib.request.Request(f"{url}/tasks?pageSize=100", headers={"A2A-Version": "1.0"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["tasks"]


async def hold(url, workspace, conversation, questions, say):
    """Holds a conversation and returns its recorded requests."""
    file, record = workspace / "interop.txt", workspace.parent / "sent"
    file.unlink(missing_ok=True)
    before, written = [task["id"] for task in tasks_of(url)], len(record.read_text())
    for turn in conversation["turns"]:
        expect(not file.exists(), "nothing is written before the answer")
        shown = questions.get(turn["shown"], turn["shown"])
        same(await say(turn["say"], turn.get("to")), shown, f"the reply to {turn['say']!r}")
    if conversation["turns"][0]["shown"] in questions:
        same(file.read_text(), "from the script\n", "the file is written")
    made = [task for task in tasks_of(url) if task["id"] not in before]
    same([task["status"]["state"] for task in made], ["TASK_STATE_COMPLETED"] * conversation["tasks"], "the tasks")
    same(len({task["contextId"] for task in made}), 1, "their contexts")
    return [json.loads(line) for line in record.read_text()[written:].splitlines()]


def check_sent(turns, sent, streaming):
    same([message["stream"] for message in sent], [streaming] * len(turns), "whether replies were streamed")
    same([message["context"] for message in sent[1:]], [True] * (len(turns) - 1), "whether later messages named the context")
    for turn, message in zip(turns, sent):
        if turn.get("to") != "open question":
            same(message["task"], turn.get("to") == "task", f"whether {turn['say']!r} named the task")


async def main(name, url, workspace):
    """Holds all conversations in all ways. Returns the number of those that failed."""
    framework = importlib.import_module("framework_" + re.sub(r"-\d+$", "", name).replace("-", "_"))
    table = json.loads((Path(__file__).parent.parent / "conversations.json").read_text())
    questions = {"WRITE": table["write"].replace("WORKSPACE", workspace)}
    workspace = Path(workspace)
    failed = 0
    for way, options in framework.WAYS.items():
        for title, conversation in table["conversations"].items():
            line = f"{name}, {way}: {title}"
            if title in framework.CANNOT:
                print(f"{line}: left out, {framework.CANNOT[title]}")
                continue
            try:
                async with asyncio.timeout(PATIENCE), framework.talk(url, **options) as say:
                    sent = await hold(url, workspace, conversation, questions, say)
                check_sent(conversation["turns"], sent, not way.endswith("not streaming"))
                print(f"{line}: ok")
            except Exception:
                failed += 1
                print(f"{line}: FAILED\n{traceback.format_exc()}")
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(1 if asyncio.run(main(*sys.argv[1:])) else 0)
