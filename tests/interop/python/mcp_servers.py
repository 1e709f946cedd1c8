"""Our program with real MCP servers: it starts each server or connects to it, lists its tools, calls some, and ends it.

    mcp_servers.py BINARY KIT PLACE

KIT has the installed packages, PLACE is an empty folder. A scripted agent calls the tools, so no model is needed; the results of calls are
read from the records of their task.
"""
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

BINARY, KIT, PLACE = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])
HERE = Path(__file__).resolve().parent
# A Node server needs up to 3 s and a Python one 5 s to start on two cores; many start at once here.
PATIENCE = 120
DEVTOOL = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md"


def node(name):
    return str(KIT / "js-mcp/node_modules/.bin" / f"mcp-server-{name}")


def python(packages):
    return str(KIT / f"python-{packages}/bin/python")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ours(packages):
    """The small server of mcp_server.py over three transports."""
    http, sse = free_port(), free_port()
    program = [python(packages), str(HERE / "mcp_server.py")]
    return {
        f"{packages}-stdio": {"command": program[0], "args": program[1:] + ["stdio"]},
        f"{packages}-http": {"url": f"http://127.0.0.1:{http}/mcp", "start": program + ["streamable-http", str(http)]},
        f"{packages}-sse": {"url": f"http://127.0.0.1:{sse}/sse", "start": program + ["sse", str(sse)]},
    }


def servers(workspace):
    http, sse = free_port(), free_port()
    everything = node("everything")
    repository = workspace / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (workspace / "note.txt").write_text("a note\n")
    known = {
        "everything": {"command": everything, "args": ["stdio"]},
        "everything-http": {"url": f"http://127.0.0.1:{http}/mcp", "start": [everything, "streamableHttp"], "port": http},
        "everything-sse": {"url": f"http://127.0.0.1:{sse}/sse", "type": "sse", "start": [everything, "sse"], "port": sse},
        "filesystem": {"command": node("filesystem"), "args": []},
        "memory": {"command": node("memory"), "env": {"MEMORY_FILE_PATH": str(PLACE / "memory.json")}},
        "thinking": {"command": node("sequential-thinking")},
        "time": {"command": python("mcp-2"), "args": ["-m", "mcp_server_time"]},
        "git": {"command": python("mcp-2"), "args": ["-m", "mcp_server_git", "--repository", str(repository)]},
    }
    for packages in ("mcp-2", "mcp-1", "fastmcp"):
        known.update(ours(packages))
    return known


def small(name):
    """The calls of our small server."""
    points = [{"x": 0, "y": 2}, {"x": 4, "y": 4, "label": "b"}]
    return [(name, "add", {"a": 2, "b": 40}, "42", True), (name, "centre", {"points": points}, "2.0,3.0", True),
            (name, "fail", {"why": "on purpose"}, "Error executing tool fail", False)]


def calls(workspace):
    """Server, tool, arguments, what is in the result, and whether the call succeeds."""
    entities = [{"name": "gemini", "entityType": "agent", "observations": ["small"]}]
    listed = []
    for name in ("everything", "everything-http", "everything-sse"):
        listed += [(name, "echo", {"message": "hello"}, "hello", True), (name, "get-sum", {"a": 2, "b": 3}, "5", True)]
    listed += [
        ("everything", "get-tiny-image", {}, "image/png", True),
        ("everything", "trigger-long-running-operation", {"duration": 1, "steps": 2}, "completed", True),
        ("filesystem", "read_text_file", {"path": str(workspace / "note.txt")}, "a note", True),
        ("filesystem", "read_text_file", {"path": "/etc/hostname"}, "ccess denied", False),
        ("memory", "create_entities", {"entities": entities}, "gemini", True),
        ("memory", "read_graph", {}, "small", True),
        ("time", "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00", True),
        ("git", "git_status", {"repo_path": str(workspace / "repository")}, "No commits yet", True),
    ]
    thought = {"thought": "One.", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
    listed.append(("thinking", "sequentialthinking", thought, "thoughtHistoryLength", True))
    for packages in ("mcp-2", "mcp-1", "fastmcp"):
        for transport in ("stdio", "http", "sse"):
            listed += small(f"{packages}-{transport}")
    return listed


def declared(server, tool):
    return f"mcp_{server}_{tool}"


def wait_for(what, check):
    until = time.monotonic() + PATIENCE
    while True:
        found = check()
        if found is not None:
            return found
        if time.monotonic() > until:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.1)


def listens(port):
    with socket.socket() as probe:
        return True if probe.connect_ex(("127.0.0.1", port)) == 0 else None


def more_rules(known):
    """Further uses of the servers by the agent."""
    def rule(text, call, args):
        return {"when": {"text": text}, "steps": [{"call": call, "args": args}, {"text": "Called."}]}

    uris = {"listed": "demo://resource/static/document/startup.md", "template": "demo://resource/dynamic/text/7", "unknown": "demo://elsewhere/1"}
    rules = [rule(f"read {name} of {server}", "read_mcp_resource", {"uri": uri, "serverName": server})
             for server in known for name, uri in uris.items()]
    return rules + [
        rule("ask me", declared("everything", "trigger-elicitation-request"), {}),
        rule("take long", declared("everything", "trigger-long-running-operation"), {"duration": 600, "steps": 6000}),
    ]


class Program:
    def __init__(self, place, known, listed, workspace, flags):
        home = place / "home"
        (home / ".gemini").mkdir(parents=True)
        settings = {name: {key: value for key, value in server.items() if key not in ("start", "port")}
                    for name, server in known.items()}
        (home / ".gemini/settings.json").write_text(json.dumps({"mcpServers": settings}))
        rules = [{"when": {"text": f"call {number}"}, "steps": [{"call": declared(server, tool), "args": args}, {"text": "Called."}]}
                 for number, (server, tool, args, _, _) in enumerate(listed)]
        rules += more_rules(known)
        script = place / "calls.script.json"
        script.write_text(json.dumps({"rules": rules, "default": [{"text": "Begun."}]}))
        self.state = place / "state"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home)}
        command = [BINARY, "serve", "--a2a-port", "0", "--workspace", str(workspace), *flags,
                   "--state-dir", str(self.state), "--script", str(script)]
        self.log = open(place / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        found = wait_for("the server", lambda: re.search(r"http://\S+:\d+", (place / "log").read_text()))
        self.url = found.group(0)

    def run(self, *args):
        command = [BINARY, *args, "--url", self.url, "--state-dir", str(self.state)]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    def send(self, text):
        return json.loads(self.run("send", "--wait", "--json", text))["taskId"]

    def servers(self):
        with urllib.request.urlopen(f"{self.url}/tasks/metadata") as answer:
            tasks = json.load(answer)
        return {server["name"]: server for task in tasks for server in task["mcpServers"]}

    def last_result(self, task):
        ended = [json.loads(line)["event"]["call_ended"] for line in self.run("tasks", "export", task).splitlines() if '"call_ended"' in line]
        return ended[-1]["ending"]

    def end(self):
        self.process.terminate()
        status = self.process.wait(PATIENCE)
        assert status in (0, 143, -15), status


def main():
    workspace = (PLACE / "workspace").resolve()
    workspace.mkdir(parents=True)
    known, listed = servers(workspace), calls(workspace)
    network = []
    for name, server in known.items():
        if "start" in server:
            env = dict(os.environ, PORT=str(server["port"])) if "port" in server else dict(os.environ)
            log = open(PLACE / f"{name}.log", "w", encoding="utf-8")
            network.append(subprocess.Popen(server["start"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    failures = []
    try:
        for name, server in known.items():
            if "url" in server:
                port = int(re.search(r":(\d+)/", server["url"]).group(1))
                wait_for(f"the server {name}", lambda port=port: listens(port))
        program = Program(PLACE, known, listed, workspace, ["--trust-workspace", "--yolo"])
        try:
            failures = conversation(program, known, listed)
            failures += everything_else(program)
        finally:
            program.end()
        failures += left_over(known)
        failures += named_by_client(known, workspace)
    finally:
        for process in network:
            process.terminate()
        for process in network:
            process.wait(PATIENCE)
    for failure in failures:
        print("FAILED:", failure)
    print(f"mcp: {len(known)} servers, {len(listed)} calls: {'failed' if failures else 'ok'}")
    sys.exit(1 if failures else 0)


def ask(program, method, params, fields=()):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(program.url, json.dumps(body).encode(), {"Content-Type": "application/json", **dict(fields)})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def message(text, **more):
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "role": "user", "messageId": f"m-{time.monotonic_ns()}", "parts": parts, **more}


def events(program, task):
    return [json.loads(line)["event"] for line in program.run("tasks", "export", task).splitlines()]


def everything_else(program):
    """A prompt, resources, questions of a server and a cancelled call, with the reference server `everything`."""
    failures = []

    def check(what, found, words):
        if words not in (text := json.dumps(found, ensure_ascii=False)):
            failures.append(f"{what}: no {words!r} in {text[-600:]}")

    for server in ("everything", "everything-http", "everything-sse"):
        body = json.dumps({"command": f"{server}:args-prompt", "args": ["--city=Paris"]}).encode()
        request = urllib.request.Request(program.url + "/executeCommand", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            task = re.search(r'"taskId":"([^"]+)"', answer.read().decode())
        check(f"{server}: a prompt", events(program, task.group(1)) if task else "no task", "What's weather in Paris?")
        uri = f"@{server}:demo://resource/static/document/features.md"
        check(f"{server}: a resource in a prompt", events(program, program.send(f"read {uri}")), "# Everything Server")
        for name, words in (("listed", "# Everything Server"), ("template", "Resource 7"), ("unknown", "mcp_resource_not_found")):
            check(f"{server}: a resource, {name}", program.last_result(program.send(f"read {name} of {server}")), words)
    questions(program, check)
    return failures


def questions(program, check):
    """A form, and a call that is cancelled."""
    def begin(text):
        answer = ask(program, "message/send", {"message": message(text), "configuration": {"blocking": False}})
        return answer["result"]["id"]

    def has(task, word):
        return lambda: next((event[word] for event in events(program, task) if word in event), None)

    # The values arrive with their types.
    task = begin("ask me")
    inquired = wait_for("the question of a server", has(task, "call_inquired"))
    check("a form", inquired, "Please provide inputs")
    answers = message("name: Ann Other\ncheck: yes\ninteger: 7", taskId=task)
    check("an answer", ask(program, "message/send", {"message": answers}), task)
    ending = wait_for("the end of the call", has(task, "call_ended"))
    for words in ("Ann Other", '\\"integer\\": 7', '\\"check\\": true', "accept"):
        check("the values of the form", ending, words)
    # Only the call ends; its server continues to run.
    task = begin("take long")
    wait_for("progress of the call", has(task, "call_output"))
    check("a cancelled task", ask(program, "tasks/cancel", {"id": task}), "canceled")
    ending = wait_for("the end of the call", has(task, "call_ended"))
    check("a cancelled call", ending, "cancelled")
    check("the call after it", program.last_result(program.send("call 0")), "hello")


def conversation(program, known, listed):
    last = {}

    def connected():
        """Waits for the server in the metadata of the task: it records servers when its turns begin, and slow servers connect later."""
        nonlocal last
        program.send("begin")
        last = program.servers()
        return True if all(last.get(name, {}).get("status") in ("connected", "disconnected") for name in known) else None
    wait_for("the connections", connected)
    failures = [f"{name}: {server.get('error', server['status'])}" for name, server in last.items() if server["status"] != "connected"]
    for number, (server, tool, _, words, succeeds) in enumerate(listed):
        ending = program.last_result(program.send(f"call {number}"))
        text = json.dumps(ending)
        if ("success" in ending) != succeeds or words not in text:
            failures.append(f"{server} {tool}: {text[:400]}")
    print("tools:", ", ".join(f"{name} {len(server.get('tools', []))}" for name, server in sorted(last.items())))
    return failures


def named_by_client(known, workspace):
    """A development tool names its own server, which belongs to the task. Its calls need approval in every mode."""
    listed = [("mine", "echo", {"message": "from the editor"}, "from the editor", True)]
    program = Program(PLACE / "editor", {}, listed, workspace, ["--yolo", "--client-mcp", "loopback"])
    try:
        def say(text, **more):
            return ask(program, "message/send", {"message": message(text, **more)}, {"X-A2A-Extensions": DEVTOOL})
        program_named = {"mine": {"command": "touch"}}
        refused = [say("begin", metadata={key: {"mcpServers": program_named}}) for key in ("coderAgent", DEVTOOL)]
        servers = {"mine": {"url": known["everything-http"]["url"]}}
        coder = say("begin", metadata={"coderAgent": {"mcpServers": servers}})["result"]["id"]
        wait_for("the server of the coder agent's client", lambda: True if program.servers().get("mine", {}).get("status") == "connected" else None)
        task = say("begin", metadata={DEVTOOL: {"mcp_servers": servers}})["result"]["id"]
        wait_for("the client's server", lambda: True if program.servers().get("mine", {}).get("status") == "connected" else None)
        state = say("call 0", taskId=task)["result"]["status"]["state"]
        program.run("approve", "--task", task)
        program.run("watch", "--task", task, "--until", "idle")
        ending = program.last_result(task)
        failures = []
        if any(one.get("error", {}).get("data", {}).get("reason") != "MCP_SERVER_NOT_ALLOWED" for one in refused):
            failures.append(f"a program named by a client: {refused}")
        if coder == task:
            failures.append(f"two messages, one task: {task}")
        if state != "input-required" or "success" not in ending or "from the editor" not in json.dumps(ending):
            failures.append(f"a server named by a client: {state}, {ending}")
        return failures
    finally:
        program.end()


def left_over(known):
    """No process of a server is left when ours has ended."""
    programs = {tuple([server["command"], *server.get("args", [])]) for server in known.values() if "command" in server}

    def gone():
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")[:-1] if entry.name.isdigit() else []
            except (OSError, UnicodeDecodeError):
                continue
            if any(list(program) == words[-len(program):] and str(KIT) in " ".join(words) for program in programs):
                return None
        return True
    wait_for("the end of the servers' processes", gone)
    return []


main()
