"""A server in a directory of its own, and its clients, for scripts/constrained. Errors of the server are raised as `Wrong`."""

import http.client
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import uuid

PATIENCE = 60  # seconds for one answer or one condition
UNDER = []  # the program that runs the binary, such as an emulator
FORK = multiprocessing.get_context("fork")


class Skip(Exception):
    """The environment cannot be set up here."""


class Wrong(Exception):
    """The server did something wrong."""


def request(port, method, path, body=None, fields={}):
    """One request on a connection of its own. Returns the status, the header fields and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **fields} if body else fields)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server may refuse a long body before it has read all of it. Its response says why.
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def prompt(text, **more):
    message = {"role": "ROLE_USER", "messageId": str(uuid.uuid4()), "parts": [{"text": text}], **more}
    return json.dumps({"message": message}).encode()


def send(server, state, text, **more):
    """Sends a prompt or an answer, after which the task must be in that state. Returns the id of the task."""
    status, _, body = request(server.port, "POST", "/message:send", prompt(text, **more))
    if status != 200:
        raise Wrong(f"{text!r} was answered with {status}: {body[:200].decode(errors='replace')}")
    task = json.loads(body)["task"]
    if task["status"]["state"] != "TASK_STATE_" + state:
        raise Wrong(f"the task is {task['status']['state']} instead of {state}")
    return task["id"]


def approve(server, text, meanwhile=lambda: None):
    """A prompt, the approval of the call that it leads to, and the answer. Returns the id of the task."""
    task = send(server, "INPUT_REQUIRED", text)
    meanwhile()
    return send(server, "COMPLETED", "yes", taskId=task)


def write_a_file(server, meanwhile=lambda: None):
    approve(server, "write a file", meanwhile)
    if server.workspace and not os.path.exists(os.path.join(server.workspace, "hello.txt")):
        raise Wrong("the approved file was not written")


def run_a_command(server, *outputs):
    """Lets the demo run its command. The output must be that of the demo, or begin with one of `outputs`."""
    task = approve(server, "run a command")
    # All events of the task, in the profile that shows what commands print.
    call = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": task}}
    events = request(server.port, "POST", "/?profile=coder", json.dumps(call).encode(), {"Last-Event-ID": "0"})[2]
    if not any(f'"resultDisplay":"{output}' in events.decode() for output in ["hello from the demo", *outputs]):
        raise Wrong("the approved command has no output")


def work(server):
    write_a_file(server)
    run_a_command(server)


def answer_or_refusal(server, body):
    """The status of a prompt that may be refused. A refusal must have a proper status."""
    status, fields, text = request(server.port, "POST", "/message:send", body)
    if status == 503 and "Retry-After" not in fields:
        raise Wrong("503 without Retry-After")
    if status not in (200, 413, 503):
        raise Wrong(f"a prompt was answered with {status}: {text[:200].decode(errors='replace')}")
    return status


def at_once(count, action):
    """Calls `action` in `count` threads. Returns how often each result came."""
    results, errors = [], []

    def run():
        try:
            results.append(action())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise Wrong(f"{len(errors)} of {count} requests failed: {errors[0]!r}")
    return ", ".join(f"{results.count(result)}× {result}" for result in sorted(set(results)))


def become(uid):
    os.setgid(uid)
    os.setuid(uid)


class OtherProcess:
    """Calls `action` in a process of its own, as another user if `uid` is given."""

    def __init__(self, action, uid=None):
        self.receiver, self.sender = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self.run, args=[action, uid])
        self.process.start()
        self.sender.close()

    def run(self, action, uid):
        try:
            if uid is not None:
                become(uid)
            self.sender.send((action(), None))
        except Exception as error:
            self.sender.send((None, str(error)))

    def result(self):
        # Received before the process is waited for: it does not end while a long result fills the pipe.
        if not self.receiver.poll(4 * PATIENCE):
            self.process.kill()
            raise Wrong("a client does not end")
        try:
            result, error = self.receiver.recv()
        except EOFError:
            result, error = None, "a client has ended without a result"
        self.process.join()
        if error is not None:
            raise Wrong(error)
        return result


class Server:
    """The binary in one environment. `before` are words in front of it, such as `chroot DIR`; it runs in the directory `dir`."""

    def __init__(
        self, dir, before=(), binary=None, options=(), limits=(), prepare=None, stderr=None, env={}, paths=None
    ):
        self.workspace = None if paths else os.path.join(dir, "work")
        workspace, state = paths or (self.workspace, os.path.join(dir, "state"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = os.path.join(dir, "log")
        self.words = [*before, *UNDER, binary or os.path.join(dir, "gemini-a2a"), "serve", "--a2a-port", str(self.port)]
        self.words += ["--workspace", workspace, "--state-dir", state, *options]
        self.process_options = {"cwd": dir, "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", **env}}
        self.stderr = stderr

        def in_child():
            os.setpgid(0, 0)
            for kind, limit in limits:
                resource.setrlimit(kind, (limit, limit))
            if prepare:
                prepare()

        self.in_child = in_child
        self.start()

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.words, **self.process_options, stdin=subprocess.DEVNULL, stdout=log, stderr=self.stderr or log,
                preexec_fn=self.in_child,
            )  # fmt: skip
        try:
            until("the server to answer", self.answers)
        except BaseException:
            self.end()
            raise

    def answers(self):
        if self.process.poll() is not None:
            raise Wrong(f"it ended with {self.process.returncode}: {self.logged()[-300:].strip()}")
        try:
            request(self.port, "GET", "/health")
        except ConnectionRefusedError:
            return False
        return True

    def logged(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def pid(self):
        """The process of the server itself, which may be a child of the program in front of it."""
        name = os.path.basename(UNDER[0] if UNDER else "gemini-a2a")[:15]
        candidates = [self.process.pid]
        while candidates:
            pid = candidates.pop()
            if field(pid, "Name") == name:
                return pid
            candidates += children(pid)
        raise Wrong("the server's process is gone")

    def peak(self):
        """The largest resident memory of the server, in KiB."""
        return int(field(self.pid(), "VmHWM").split()[0])

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def field(pid, name):
    """A value of /proc/PID/status; empty if there is none."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((line.split(":", 1)[1].strip() for line in status if line.startswith(name + ":")), "")
    except OSError:
        return ""


def children(pid):
    """The child processes, also those that have ended and were not reaped."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [one for one in pids if field(one, "PPid") == str(pid)]


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited in vain for {what}")
        time.sleep(0.02)
