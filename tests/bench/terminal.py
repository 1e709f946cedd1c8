"""Measures the session in a terminal through a pseudo-terminal.

    terminal.py BINARY [--quick] [NAME=PROGRAM…]

Prints one table: an answer of many pieces while keys are typed and the window is resized, a terminal that reads nothing, idleness, and
the time from the start to a usable prompt, beside that of `serve` and of other programs in the same kind of terminal.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request

FRAME = b"\x1b[?2026h"
ESCAPES = re.compile(rb"\x1b\[[0-9;?>=]*[a-zA-Z~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\|\x1b[>=()][0-9A-Z]?")
# The requirements.
FRAMES_PER_SECOND = 60
ECHO_P99_MS = 30
MEMORY_OVER_TEXT = 4 << 20


def thread_switches(pid):
    """The number of voluntary context switches of each thread of a process."""
    counts = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/status") as status:
                counts[task] = sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
        except OSError:
            pass
    return counts


def resident(pid):
    """Resident bytes of a process and its descendants."""
    pages = 0
    todo = [pid]
    while todo:
        one = todo.pop()
        try:
            with open(f"/proc/{one}/statm") as statm:
                pages += int(statm.read().split()[1])
            with open(f"/proc/{one}/task/{one}/children") as children:
                todo += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGE_SIZE")


class Session:
    """A program in a pseudo-terminal."""

    def __init__(self, words, place, rows=30, columns=100):
        environment = {"PATH": os.environ["PATH"], "HOME": f"{place}/home", "LANG": "C.UTF-8", "TERM": "xterm-256color", "GEMINI_API_KEY": "none", "OPENAI_API_KEY": "none"}
        if words[0].endswith("gemini-a2a"):
            del environment["GEMINI_API_KEY"]
        self.seen = bytearray()
        self.start = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(f"{place}/workspace")
            os.execve(words[0], words, environment)
        os.set_blocking(self.fd, False)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, wait):
        """Reads output for this time, and answers the queries in it as a terminal does."""
        ready, _, _ = select.select([self.fd], [], [], wait)
        if not ready:
            return b""
        try:
            data = os.read(self.fd, 1 << 16)
        except (BlockingIOError, OSError):
            return b""
        self.seen += data
        for asked, reply in ((b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[?u", b"\x1b[?0u")):
            if asked in data:
                self.write(reply)
        return data

    def write(self, data):
        os.write(self.fd, data)

    def until(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in ESCAPES.sub(b"", bytes(self.seen)):
            if time.monotonic() > end:
                raise SystemExit(f"no {text!r} within {seconds} s:\n{ESCAPES.sub(b'', bytes(self.seen)).decode(errors='replace')}")
            self.read(0.05)
        return time.monotonic() - self.start

    def end(self):
        try:
            os.kill(self.pid, signal.SIGTERM)
            end = time.monotonic() + 5
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                self.read(0.02)
                if time.monotonic() > end:
                    os.kill(self.pid, signal.SIGKILL)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.fd)


def place_for(script):
    place = tempfile.mkdtemp(prefix="gemini-a2a-bench.")
    for name in ("workspace", "home", "state"):
        os.mkdir(f"{place}/{name}")
    with open(f"{place}/script.json", "w") as file:
        json.dump(script, file)
    return place


def words(binary, place, *more):
    return [binary, "--workspace", f"{place}/workspace", "--state-dir", f"{place}/state", "--script", f"{place}/script.json", "--trust-workspace", *more]


def soak(binary, pieces):
    """An answer of many pieces, 2,000 a second, while ten keys a second are typed and the window is resized."""
    words_of_answer = [f"word{n:05} " for n in range(pieces)] + ["done."]
    text = "".join(words_of_answer)
    steps = []
    for n in range(0, len(words_of_answer), 4):
        some = words_of_answer[n : n + 4]
        steps += [{"text": "".join(some), "chunks": len(some)}, {"wait_ms": 2}]
    place = place_for({"rules": [], "default": steps})
    session = Session(words(binary, place), place)
    session.until("Ask anything".encode())
    before = resident(session.pid)
    session.write(b"go\r")
    begin, count = time.monotonic(), len(session.seen)
    echoes, typed, sent, resized, peak = [], b"", None, 0, before
    next_key, next_size = begin + 0.3, begin + 0.2
    while b"done." not in session.seen[count:] or sent:
        now = time.monotonic()
        if sent is None and now >= next_key and b"done." not in session.seen[count:]:
            # A letter that no word of the answer has.
            session.write(b"q")
            sent, mark, next_key = now, len(session.seen), now + 0.1
        if resized < 20 and now >= next_size:
            session.resize(*[(30, 100), (24, 80), (40, 120)][resized % 3])
            resized, next_size = resized + 1, now + max(0.05, pieces / 2000 / 20)
        session.read(0.002)
        if sent and b"q" in session.seen[mark:]:
            echoes.append((time.monotonic() - sent) * 1000)
            sent = None
        peak = max(peak, resident(session.pid)) if len(echoes) % 5 == 0 else peak
        if now - begin > 120:
            raise SystemExit("the answer does not end")
    seconds = time.monotonic() - begin
    output = bytes(session.seen[count:])
    session.end()
    shutil.rmtree(place)
    frames = output.count(FRAME)
    echoes.sort()
    return {
        "seconds": seconds,
        "frames": frames,
        "frames/s": frames / seconds,
        "bytes": len(output),
        "allowed": 3 * len(text) + 200 * frames,
        "text": len(text),
        "echo": echoes[int(len(echoes) * 0.99)] if echoes else 0,
        "memory": peak - before,
    }


def stopped_reader(binary):
    """A terminal that reads nothing for ten seconds, while an HTTP client makes requests."""
    place = place_for({"rules": [], "default": [{"text": "x " * 200_000, "chunks": 2_000}]})
    session = Session(words(binary, place, "--a2a-port", "0"), place)
    session.until(b"localhost:")
    session.until("Ask anything".encode())
    port = re.search(rb"localhost:(\d+)", bytes(session.seen)).group(1).decode()
    session.write(b"go\r")
    slowest, end = 0, time.monotonic() + 10
    while time.monotonic() < end:
        before = time.monotonic()
        urllib.request.urlopen(f"http://localhost:{port}/health", timeout=10).read()
        slowest = max(slowest, time.monotonic() - before)
        time.sleep(0.02)
    session.end()
    shutil.rmtree(place)
    return slowest * 1000


def idle(binary, seconds):
    place = place_for({"rules": [], "default": [{"text": "Hello."}]})
    session = Session(words(binary, place), place)
    session.until("Ask anything".encode())
    while session.read(1.5):
        pass
    switches, count = thread_switches(session.pid), len(session.seen)
    time.sleep(seconds)
    session.read(0)
    # An idle worker thread may have ended meanwhile.
    woken = sum(now - switches.get(task, 0) for task, now in thread_switches(session.pid).items())
    result = woken, len(session.seen) - count, resident(session.pid)
    session.end()
    shutil.rmtree(place)
    return result


def start_of_server(binary):
    place = place_for({"rules": [], "default": [{"text": "Hello."}]})
    begin = time.monotonic()
    command = [binary, "serve", *words(binary, place)[1:], "--a2a-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], "HOME": place})
    process.stderr.readline()
    took = time.monotonic() - begin
    process.terminate()
    process.wait()
    shutil.rmtree(place)
    return took * 1000


def start_of_terminal(command, ready):
    """Milliseconds to a usable prompt, and resident bytes then."""
    place = place_for({"rules": [], "default": [{"text": "Hello."}]})
    is_ours = command.endswith("gemini-a2a")
    session = Session(words(command, place) if is_ours else [command], place)
    try:
        took = session.until(ready, 30) * 1000
        return took, resident(session.pid)
    finally:
        session.end()
        shutil.rmtree(place, ignore_errors=True)


def main():
    binary = os.path.abspath(sys.argv[1])
    quick = "--quick" in sys.argv
    others = [word.split("=", 1) for word in sys.argv[2:] if "=" in word]
    failed = []

    def row(name, value, holds=True):
        print(f"  {name:<58} {value}{'' if holds else '   MISSED'}")
        if not holds:
            failed.append(name)

    print("The terminal")
    run = soak(binary, 1_000 if quick else 10_000)
    row("frames per second of a streamed answer (at most 60)", f"{run['frames/s']:.1f}", run["frames/s"] <= FRAMES_PER_SECOND)
    row("bytes to the terminal; allowed: 3 × text + 200 × frames", f"{run['bytes']:,} of {run['allowed']:,}", run["bytes"] <= run["allowed"])
    row("key to echo, p99 (at most 30 ms)", f"{run['echo']:.1f} ms", quick or run["echo"] <= ECHO_P99_MS)
    row("memory over the start (at most 4 MiB over the text)", f"{run['memory'] / 2**20:.1f} MiB", run["memory"] <= MEMORY_OVER_TEXT + 3 * run["text"])
    row("slowest answer to another client, terminal not read", f"{stopped_reader(binary):.1f} ms")
    switches, count, memory = idle(binary, 3 if quick else 10)
    row("wake-ups and bytes when idle", f"{switches} and {count}", switches == 0 and count == 0)
    row("resident memory when idle", f"{memory / 2**20:.1f} MiB")
    tries = 3 if quick else 10
    best = min(start_of_terminal(binary, "Ask anything".encode())[0] for _ in range(tries))
    server = min(start_of_server(binary) for _ in range(tries))
    row("start to a usable prompt, beside the start of serve", f"{best:.1f} ms, {server:.1f} ms")
    for name, value in others:
        command, ready = value.rsplit("@", 1)
        took, memory = start_of_terminal(command, ready.encode())
        row(f"start of {name} to a usable prompt, resident memory", f"{took:.0f} ms, {memory / 2**20:.0f} MiB")
    if failed:
        raise SystemExit(f"missed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
