#!/usr/bin/env python3
"""A page in Chromium opens the session by a ticket, which it sends as a sub-protocol of its WebSocket.

    browser.py BINARY PLACE

BINARY is our program, PLACE an empty directory. Chromium fails a handshake that accepts none of the offered sub-protocols, and a page
cannot send header fields with it: the page offers `session` and `ticket.K`, and the server accepts `session`.
"""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

from proxy import PATIENCE, eventually, expect, free_port

PAGE = """<!doctype html><title>session</title><script>
const parameters = new URLSearchParams(location.hash.slice(1));
const report = (result) => fetch("/result", { method: "POST", body: JSON.stringify(result) });
const socket = new WebSocket(parameters.get("url"), ["session", "ticket." + parameters.get("ticket")]);
const seen = { opened: false, protocol: null, messages: [] };
socket.onopen = () => {
    seen.opened = true;
    seen.protocol = socket.protocol;
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "message/send", params: { message:
        { kind: "message", role: "user", messageId: "m-1", parts: [{ kind: "text", text: "hello" }] } } }));
};
socket.onmessage = ({ data }) => {
    seen.messages.push(data);
    if (data.includes('"id":1')) { report(seen); }
};
socket.onclose = ({ code }) => report({ ...seen, code });
</script>"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page and takes its results."""

    results = []

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.results.append(json.loads(self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def ask(url, token, origin):
    request = urllib.request.Request(url + "/ticket", data=b"{}", method="POST")
    for name, value in {"Authorization": f"Bearer {token}", "Origin": origin, "Content-Type": "application/json"}.items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)["ticket"]


def open_page(place, address):
    """Opens a page in a new browser. Returns the results that it reports."""
    profile = place / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--remote-debugging-port=0",
        address,
    ]
    count = len(Pages.results)
    with open(place / "chromium.log", "ab") as log:
        browser = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(place)})
    try:
        return eventually("the page's report", lambda: Pages.results[count:] or None)[0]
    finally:
        browser.terminate()
        browser.wait()


def main():
    binary, place = sys.argv[1], Path(sys.argv[2]).resolve()
    for folder in ("workspace", "state"):
        (place / folder).mkdir(parents=True)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    origin = f"http://localhost:{pages.server_address[1]}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place)}
    state = ["--state-dir", str(place / "state")]
    added = subprocess.run(
        [binary, "token", "add", "page", "--rights", "view,prompt", *state], env=environment, check=True, capture_output=True, text=True
    )
    token, port = added.stdout.strip(), free_port()
    command = [
        binary, "serve", "--access", "token", "--a2a-port", str(port), "--allowed-origin", origin, "--workspace",
        str(place / "workspace"), *state, "--script", str(Path(__file__).resolve().parent / "agent.script.json"),
    ]
    with open(place / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
    try:
        url = f"http://localhost:{port}"
        eventually("the server", lambda: is_live(url))
        ticket = ask(url, token, origin)
        page = f"{origin}/#url=ws://localhost:{port}/ws&ticket={ticket}"
        seen = open_page(place, page)
        expect(seen["opened"] and seen["protocol"] == "session", f"the session is not open: {seen}")
        expect(any('"id":1' in message for message in seen["messages"]), f"the prompt was not answered: {seen}")
        again = open_page(place, page)
        expect(not again["opened"] and again["code"] == 1006, f"a ticket is used once: {again}")
        foreign = ask(url, token, f"http://localhost:{port}")
        other = open_page(place, f"{origin}/#url=ws://localhost:{port}/ws&ticket={foreign}")
        expect(not other["opened"], f"a ticket is for the origin that it was issued to: {other}")
    finally:
        server.terminate()
        server.wait()
    print("browser: Chromium opens the session by a ticket, once, and only from its origin")


def is_live(url):
    try:
        with urllib.request.urlopen(url + "/live", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
