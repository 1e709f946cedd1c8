#!/usr/bin/env python3
"""Prometheus reads the metrics of a server under load; its counts must be those of the requests that were made.

    metrics.py BINARY [--quick]

BINARY is our program. Prometheus is Debian's package. The server's listener for metrics is scraped every second while clients on kept-alive
connections list tasks and send messages. At the end the query for each route has to give the number of requests that were made.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PATIENCE = 60.0
SCRIPT = {"rules": [], "default": [{"text": "Hello."}]}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(what, check):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = check()
        if found is not None and found is not False:
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited {PATIENCE:.0f} s for {what}")


def query(port, words):
    """The value of a query; None if there is none yet."""
    address = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(words)}"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
            return float(result[0]["value"][1]) if result else None
    except OSError:
        return None


def ask(port, method, path, body, count):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for _ in range(count):
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {answer.status}")


def load(port, method, path, body, clients, each):
    """Makes requests by several clients at once. Returns the seconds that they took."""
    begin = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        for asked in [pool.submit(ask, port, method, path, body, each) for _ in range(clients)]:
            asked.result()
    return time.monotonic() - begin


def start(place, binary, port, metrics, prometheus, running):
    for name in ("workspace", "home", "data"):
        (place / name).mkdir()
    (place / "script.json").write_text(json.dumps(SCRIPT))
    (place / "prometheus.yml").write_text(
        "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: gemini-a2a\n"
        f'    static_configs:\n      - targets: ["127.0.0.1:{metrics}"]\n'
    )
    server = [
        binary, "serve", "--a2a-port", str(port), "--metrics-listen", f"127.0.0.1:{metrics}", "--script", place / "script.json",
        "--workspace", place / "workspace", "--state-dir", place / "state",
    ]  # fmt: skip
    scraper = [
        "prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
        f"--web.listen-address=127.0.0.1:{prometheus}",
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
    for command in (server, scraper):
        log = (place / f"log{len(running)}").open("w")
        running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    eventually("the first scrape", lambda: query(prometheus, "up") == 1)


def main():
    binary, *flags = sys.argv[1:]
    clients, reads, prompts = (4, 50, 5) if "--quick" in flags else (20, 2_000, 50)
    message = {"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hello"}]}}
    loads = [("GET", "/tasks", None, reads), ("POST", "/message:send", json.dumps(message), prompts)]
    port, metrics, prometheus = free_port(), free_port(), free_port()
    running, is_wrong = [], False
    with tempfile.TemporaryDirectory() as folder:
        try:
            start(Path(folder), str(Path(binary).resolve()), port, metrics, prometheus, running)
            print("| requests | made | requests/s | counted by Prometheus |\n|---|---|---|---|")
            for method, path, body, each in loads:
                took = load(port, method, path, body, clients, each)
                made, words = clients * each, f'sum(http_server_request_duration_seconds_count{{http_route="{path}"}})'
                counted = eventually(f"{made} requests", lambda: (found := query(prometheus, words)) and found >= made and found)
                print(f"| {method} {path} | {made} | {made / took:.0f} | {counted:.0f} |")
                is_wrong |= counted != made
        finally:
            for process in reversed(running):
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)
    raise SystemExit(1 if is_wrong else 0)


if __name__ == "__main__":
    main()
