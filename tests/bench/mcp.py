"""Measures the program with and without MCP servers, and a call compared with the same call by the official Python client.

    mcp.py BINARY KIT [--quick]

KIT has what `tests/interop/run install mcp` has installed. Prints one table; fails if ten servers make the start slower.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BINARY, KIT = sys.argv[1], Path(sys.argv[2]).resolve()
QUICK = "--quick" in sys.argv
HERE = Path(__file__).resolve().parent
SERVER = [str(KIT / "python-mcp-2/bin/python"), str(HERE.parent / "interop/python/mcp_server.py"), "stdio"]
SERVERS = 10
STARTS = 5 if QUICK else 21
CALLS = 20 if QUICK else 200
# The time of a start with servers, as a multiple of one without, is at most this: servers are started in the background.
SLOWER = 1.25

# Run by the Python interpreter of the kit.
OFFICIAL = """
import asyncio, sys, time
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    async with stdio_client(StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await session.list_tools()
            await session.call_tool("add", {"a": 1, "b": 2})
            begin = time.perf_counter()
            for number in range(int(sys.argv[1])):
                await session.call_tool("add", {"a": number, "b": 2})
            print(time.perf_counter() - begin)

asyncio.run(main())
"""


class Program:
    def __init__(self, place, servers, rules=()):
        self.place = Path(place)
        home = self.place / "home/.gemini"
        home.mkdir(parents=True)
        (self.place / "workspace").mkdir()
        settings = {f"s{number}": {"command": SERVER[0], "args": SERVER[1:]} for number in range(servers)}
        (home / "settings.json").write_text(json.dumps({"mcpServers": settings}))
        script = self.place / "bench.script.json"
        script.write_text(json.dumps({"rules": list(rules), "default": [{"text": "Begun."}]}))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home.parent)}
        command = [BINARY, "serve", "--a2a-port", "0", "--workspace", str(self.place / "workspace"), "--trust-workspace", "--yolo",
                   "--state-dir", str(self.place / "state"), "--script", str(script)]
        begin = time.perf_counter()
        self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+:\d+", self.process.stderr.readline()).group(0)
        with urllib.request.urlopen(f"{self.url}/health") as answer:
            answer.read()
        self.started_in = time.perf_counter() - begin

    def send(self, text):
        command = [BINARY, "send", "--wait", "--url", self.url, "--state-dir", str(self.place / "state"), text]
        subprocess.run(command, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def wait_connected(self, count):
        while True:
            with urllib.request.urlopen(f"{self.url}/tasks/metadata") as answer:
                servers = [server for task in json.load(answer) for server in task["mcpServers"]]
            if sum(server["status"] == "connected" for server in servers) >= count:
                return
            time.sleep(0.1)

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def end(self):
        self.process.terminate()
        self.process.communicate()


def starts():
    """The times of starts without servers and with ten, measured in turns, so that other load affects both."""
    times = {0: [], SERVERS: []}
    for _ in range(STARTS):
        for servers in times:
            with tempfile.TemporaryDirectory() as place:
                program = Program(place, servers)
                times[servers].append(program.started_in)
                program.end()
    return statistics.median(times[0]), statistics.median(times[SERVERS])


def memories():
    sizes = []
    for servers in (0, SERVERS):
        with tempfile.TemporaryDirectory() as place:
            program = Program(place, servers)
            program.send("begin")
            program.wait_connected(servers)
            program.send("again")
            sizes.append(program.memory())
            program.end()
    return sizes[0], (sizes[1] - sizes[0]) / SERVERS


def calls():
    """The time per call: that of a turn with many calls minus that of a turn without calls. Each call is journaled before and after it runs."""
    steps = [step for number in range(CALLS)
             for step in ({"call": "mcp_s0_add", "args": {"a": number, "b": 2}}, {"text": f"{number}. "})]
    rules = [{"when": {"text": "call"}, "steps": steps}]
    with tempfile.TemporaryDirectory() as place:
        program = Program(place, 1, rules)
        program.send("begin")
        program.wait_connected(1)
        program.send("again")
        begin = time.perf_counter()
        program.send("again")
        between = time.perf_counter()
        program.send("call")
        ours = (time.perf_counter() - between) - (between - begin)
        program.end()
    official = subprocess.run([SERVER[0], "-c", OFFICIAL, str(CALLS), *SERVER], check=True, capture_output=True, text=True).stdout
    return ours / CALLS, float(official) / CALLS


def main():
    without, ten = starts()
    base, per_server = memories()
    ours, official = calls()
    rows = [
        ("start without MCP servers", f"{without * 1e3:.1f} ms"),
        (f"start with {SERVERS} MCP servers", f"{ten * 1e3:.1f} ms ({ten / without:.2f} times)"),
        ("memory without servers", f"{base / 1e6:.1f} MB"),
        ("memory per connected server", f"{per_server / 1e3:.0f} kB"),
        ("a call, with its records and approval", f"{ours * 1e3:.2f} ms"),
        ("the same call by the official Python client", f"{official * 1e3:.2f} ms"),
    ]
    for name, value in rows:
        print(f"{name:45} {value}")
    if ten > without * SLOWER:
        sys.exit(f"MCP servers make the start slower than {SLOWER} times")


main()
