"""Measures `acp` for an editor: the time from its start to the answer of `initialize`, and its memory at that time.

    acp.py BINARY [--quick]

Prints one table. The start is printed beside that of `serve`, which the machine slows down as much; only the memory can fail.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from terminal import place_for, resident, start_of_server, words

START_MS = 50
MEMORY = 8_000_000
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}


def anonymous(pid):
    """Resident bytes except pages of the program's file and its libraries."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def start_of_editor(binary):
    """Milliseconds to the answer of `initialize`, resident bytes then, how many of them are anonymous, and resident bytes with a session."""
    place = place_for({"rules": [], "default": [{"text": "Hello."}]})
    environment = {"PATH": os.environ["PATH"], "HOME": f"{place}/home"}
    begin = time.monotonic()
    process = subprocess.Popen(
        [binary, "acp", *words(binary, place)[1:]], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def ask(request):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        while True:
            answer = json.loads(process.stdout.readline())
            if answer.get("id") == request["id"]:
                return answer["result"]

    try:
        ask(INITIALIZE)
        took = (time.monotonic() - begin) * 1000
        memory, own = resident(process.pid), anonymous(process.pid)
        ask({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": f"{place}/workspace", "mcpServers": []}})
        return took, memory, own, resident(process.pid)
    finally:
        process.stdin.close()
        process.wait()
        shutil.rmtree(place)


def main():
    binary = os.path.abspath(sys.argv[1])
    tries = 3 if "--quick" in sys.argv else 21
    starts, memory, own, session = zip(*(start_of_editor(binary) for _ in range(tries)))
    start = statistics.median(starts)
    server = statistics.median(start_of_server(binary) for _ in range(tries))
    memory = statistics.median(memory)
    holds = memory <= MEMORY

    print("An editor")
    print(f"  {'start of acp to the answer of initialize (50 ms)':<58} {start:.1f} ms{'' if start <= START_MS else '   slower'}")
    print(f"  {'start of serve, and the ratio of the two':<58} {server:.1f} ms, {start / server:.2f}")
    print(f"  {'resident memory after initialize (at most 8 MB)':<58} {memory / 1e6:.1f} MB{'' if holds else '   MISSED'}")
    print(f"  {'of which anonymous: the rest are pages of its file':<58} {statistics.median(own) / 1e6:.1f} MB")
    print(f"  {'resident memory with a session':<58} {statistics.median(session) / 1e6:.1f} MB")
    if not holds:
        raise SystemExit("missed: resident memory of acp")


if __name__ == "__main__":
    main()
