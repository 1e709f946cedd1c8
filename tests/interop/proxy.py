#!/usr/bin/env python3
"""Clients with credentials through nginx with TLS, as src/manual/serving.md describes it.

    proxy.py BINARY KIT PLACE CLIENT…

BINARY is our program, KIT has the clients' packages, PLACE is an empty directory. A CLIENT is the name of a folder of KIT. The
configuration of nginx is the one of the manual, with other ports and paths. It also checks that event streams are not buffered, that our
own clients connect by wss and curl by Unix sockets, that Prometheus reads the metrics, and that request smuggling is refused.
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(what, check):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE:.0f} s for {what}")


class Place:
    """A server with credentials, and nginx before it."""

    def __init__(self, binary, kit, place):
        self.binary, self.kit, self.place = Path(binary).resolve(), Path(kit).resolve(), Path(place).resolve()
        self.state, self.workspace = self.place / "state", self.place / "workspace"
        self.home = self.place / "home"
        for folder in (self.workspace, self.home, self.place / "nginx"):
            folder.mkdir(parents=True)
        self.port, self.proxy_port = free_port(), free_port()
        self.url = f"https://localhost:{self.proxy_port}"
        self.named = self.place / "named.sock"
        self.running = []
        self.certificate = self.place / "cert.pem"
        self.trusted = ssl.create_default_context()

    def run(self, *command, **options):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)
        expect(done.returncode == 0, f"{command[0]} {command[1:3]}: {done.stdout}{done.stderr}")
        return done.stdout

    def ours(self, *words, **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **variables}
        return self.run(str(self.binary), *words, env=environment)

    def token(self, name, subject, rights):
        words = ["token", "add", name, "--subject", subject, "--rights", rights, "--state-dir", str(self.state)]
        return self.ours(*words).strip()

    def start(self):
        self.dev, self.other = self.token("dev", "dev", "view,prompt,approve"), self.token("other", "other", "view")
        self.admin = self.token("admin", "ops", "admin")
        log = (self.place / "log").open("w")
        arguments = [
            "serve", "--access", "token", "--a2a-port", str(self.port), "--listen", f"unix:{self.named}",
            "--public-url", self.url, "--trusted-proxy", "127.0.0.1", "--workspace", str(self.workspace),
            "--state-dir", str(self.state), "--script", str(HERE / "agent.script.json"),
        ]  # fmt: skip
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.running.append(subprocess.Popen([self.binary, *arguments], env=environment, stdout=log, stderr=log))
        subject = "/CN=localhost"
        self.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", subject, "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(self.place / "key.pem"),
            "-out", str(self.certificate),
        )  # fmt: skip
        self.trusted.load_verify_locations(self.certificate)
        self.start_nginx()
        eventually("the server", lambda: self.status("/live") == 200)

    def start_nginx(self):
        manual = (HERE.parents[1] / "src/manual/serving.md").read_text()
        [block] = re.findall(r"```nginx\n(.*?)```", manual, re.S)
        given = {
            "listen 443 ssl": f"listen 127.0.0.1:{self.proxy_port} ssl",
            "agent.example;": "localhost;",
            "/etc/ssl/agent.example.pem": str(self.certificate),
            "/etc/ssl/agent.example.key": str(self.place / "key.pem"),
            "127.0.0.1:41242": f"127.0.0.1:{self.port}",
        }
        for word, ours in given.items():
            expect(word in block, f"the manual's configuration has {word}")
            block = block.replace(word, ours)
        folders = "".join(f"{kind}_temp_path nginx/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;\n" if os.getuid() == 0 else ""
        configuration = self.place / "nginx.conf"
        configuration.write_text(
            f"{user}daemon off;\npid nginx.pid;\nerror_log nginx.log;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}{block}}}\n"
        )
        command = ["nginx", "-p", self.place, "-c", configuration]
        self.running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def open(self, path, token=None, body=None, headers=()):
        given = dict(headers)
        if token:
            given["Authorization"] = f"Bearer {token}"
        if body is not None:
            given["Content-Type"] = "application/json"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, given)
        return urllib.request.urlopen(request, context=self.trusted, timeout=PATIENCE)

    def status(self, path, token=None, **more):
        try:
            with self.open(path, token, **more) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def message(text):
    return {"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": text}]}}


def client(place, name):
    kind, _, version = name.partition("-")
    variables = {"PATH": os.environ["PATH"], "HOME": str(place.home), "TOKEN": place.dev, "PYTHONWARNINGS": "ignore"}
    folder = place.kit / name
    if kind == "python":
        variables |= {"SSL_CERT_FILE": str(place.certificate), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        command = [folder / "bin/python", HERE / "python/with_token.py"]
    else:
        variables |= {"NODE_EXTRA_CA_CERTS": str(place.certificate)}
        home = place.place / name
        home.mkdir()
        for program in (HERE / "js").glob("*.mjs"):
            shutil.copy(program, home)
        (home / "node_modules").symlink_to(folder / "node_modules")
        command = ["node", home / "with_token.mjs"]
    print(place.run(*map(str, command), version, place.url, str(place.workspace), env=variables), end="")


def streams_are_not_buffered(place):
    with place.open("/message:stream?pieces=1", place.dev, message("pause in the middle")) as stream:
        task = None
        for line in stream:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                task = task or event.get("task", {}).get("id")
                if b"First half" in line:
                    break
        with place.open(f"/tasks/{task}", place.dev, headers={"A2A-Version": "1.0"}) as answer:
            state = json.load(answer)["status"]["state"]
        expect(state == "TASK_STATE_WORKING", f"the first half came while the agent was at work, not {state}")
        expect(b"second half" in stream.read(), "the rest comes later")
    print("guarded, nginx: events are not buffered: ok")


def our_own_clients(place):
    trusted = {"SSL_CERT_FILE": str(place.certificate)}
    answer = place.ours("send", "--url", place.url, "--wait", "say hello", GEMINI_A2A_TOKEN=place.dev, **trusted)
    expect("Hello from the script." in answer, f"the answer, not {answer!r}")
    (place.place / "token").write_text(place.dev)
    (place.place / "token").chmod(0o600)
    listed = place.ours("tasks", "--url", place.url.replace("https", "wss"), "--token-file", str(place.place / "token"), **trusted)
    expect("say hello" in listed, f"the task is listed, not {listed!r}")
    for token, status in ((place.other + "x", 8), (place.other, 8)):
        command = [str(place.binary), "send", "--url", place.url, "hello"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(place.home), "GEMINI_A2A_TOKEN": token, **trusted}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        expect(ended.returncode == status, f"exit status {status}, not {ended.returncode}: {ended.stderr}")
        expect(token not in ended.stdout + ended.stderr, "the token is not printed")
    print("guarded, our own clients by https and wss: ok")


def unix_sockets(place):
    [own] = (place.state / "run").glob("*.sock")
    curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://localhost/tasks", "--unix-socket"]
    expect(place.run(*curl, str(own)) == "200", "the operator at the server's own socket")
    expect(place.run(*curl, str(place.named)) == "401", "a token is needed at another socket")
    bearer = f"Authorization: Bearer {place.dev}"
    expect(place.run(*curl, str(place.named), "-H", bearer) == "200", "with a token")
    stream_and_approve(place, bearer)
    print("guarded, curl by Unix sockets: ok")


def stream_and_approve(place, bearer):
    """One conversation by curl: events as they come, a question, and its approval."""

    def curl(path, body, *options):
        given = ["-H", bearer, "-H", "Content-Type: application/json", "-H", "A2A-Version: 1.0", "-d", json.dumps(body)]
        return place.run("curl", "-s", *options, *given, f"http://localhost{path}", "--unix-socket", str(place.named))

    told = curl("/message:stream", message("say hello"), "-N")
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
    expect(len(events) > 2, f"several events, not {told!r}")
    expect("Hello from the script." in told and "TASK_STATE_COMPLETED" in told, f"hello to its end, not {told!r}")
    file = place.workspace / "interop.txt"
    file.unlink(missing_ok=True)
    asked = json.loads(curl("/message:send", message("write it please")))["task"]
    expect(asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", f"it asks, not {asked}")
    answer = message("yes")
    answer["message"] |= {"taskId": asked["id"], "messageId": "yes"}
    done = json.loads(curl("/message:send", answer))["task"]
    expect(done["status"]["state"] == "TASK_STATE_COMPLETED", f"it is approved, not {done}")
    expect(file.exists(), "the file is written")


def metrics(place):
    expect(place.status("/metrics", place.dev) == 403, "metrics need the right admin")
    with place.open("/metrics", place.admin) as answer:
        text = answer.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=PATIENCE)
    # promtool criticises names that follow the conventions of OpenTelemetry; that is ignored.
    expect(checked.returncode in (0, 3), f"promtool: {checked.stderr.decode()}")
    port, folder = free_port(), place.place / "prometheus"
    folder.mkdir()
    (folder / "token").write_text(place.admin)
    (folder / "prometheus.yml").write_text(
        "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: gemini-a2a\n    scheme: https\n"
        f"    authorization: {{ credentials_file: {folder}/token }}\n"
        f"    tls_config: {{ ca_file: {place.certificate} }}\n"
        f'    static_configs:\n      - targets: ["localhost:{place.proxy_port}"]\n'
    )
    log = (folder / "log").open("w")
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    place.running.append(subprocess.Popen(["prometheus", *options], stdout=log, stderr=log))

    def value(query):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=5) as answer:
                result = json.load(answer)["data"]["result"]
                return float(result[0]["value"][1]) if result else None
        except OSError:
            return None

    eventually("Prometheus to scrape the server", lambda: value("up") == 1)
    eventually("a figure of it", lambda: value("a2a_build_info") == 1)
    print("guarded, Prometheus: ok")


def smuggling(place):
    """Malformed requests over TLS to nginx. Each must be refused by nginx or by our server."""

    def raw(*lines, body=b""):
        with socket.create_connection(("localhost", place.proxy_port), timeout=PATIENCE) as plain:
            with place.trusted.wrap_socket(plain, server_hostname="localhost") as conn:
                head = "\r\n".join([*lines, "Host: localhost", "Connection: close", "", ""])
                conn.sendall(head.encode() + body)
                answer = b""
                while chunk := conn.recv(65536):
                    answer += chunk
                return answer

    bearer, wrong = f"Authorization: Bearer {place.other}", "Authorization: Bearer ga2a_other_wrong"
    hidden = b"0\r\n\r\nGET /tasks HTTP/1.1\r\nHost: localhost\r\n\r\n"
    cases = {
        "two tokens": raw("GET /tasks HTTP/1.1", bearer, wrong),
        "two kinds of tokens": raw("GET /tasks HTTP/1.1", bearer, f"X-API-Key: {place.other}"),
        "a blank before the colon": raw("GET /tasks HTTP/1.1", f"Authorization : Bearer {place.other}"),
        "a folded line": raw("GET /tasks HTTP/1.1", "X: y", f" {bearer}"),
        "a line feed alone": raw("GET /tasks HTTP/1.1", f"X: y\n{wrong}"),
        "a token that the connection drops": raw("GET /tasks HTTP/1.1", wrong, "Connection: Authorization"),
        "two lengths": raw("POST /message:send HTTP/1.1", "Content-Length: 4", "Transfer-Encoding: chunked", body=hidden),
        "a token in the address": raw(f"GET /tasks?token={place.other} HTTP/1.1"),
        "another's address": raw("GET /tasks HTTP/1.1", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1"),
        "a socket's owner": raw("GET /tasks HTTP/1.1", "X-Forwarded-User: operator", "Remote-User: operator"),
    }
    for name, answer in cases.items():
        statuses = re.findall(rb"HTTP/1\.[01] (\d+)", answer)
        expect(statuses and all(status in (b"400", b"401", b"429") for status in statuses), f"{name}: {answer[:300]!r}")
        expect(b"totalSize" not in answer, f"{name}: nothing is shown")
    print("guarded, nginx: what is smuggled is refused: ok")


def main():
    binary, kit, folder, *clients = sys.argv[1:]
    place = Place(binary, kit, folder)
    try:
        place.start()
        for name in clients:
            client(place, name)
        streams_are_not_buffered(place)
        our_own_clients(place)
        unix_sockets(place)
        metrics(place)
        smuggling(place)
        verified = place.ours("audit", "verify", "--tasks", "--state-dir", str(place.state))
        expect("head" in verified, verified)
        shown = place.ours("audit", "show", "--kind", "denied", "--json", "--state-dir", str(place.state))
        expect("127.0.0.1" in shown, f"the audit names refusals: {shown}")
        print("guarded, the audit names refusals: ok")
    except BaseException:
        for name in ("log", "nginx.log"):
            text = (place.place / name).read_text() if (place.place / name).exists() else ""
            print(f"--- {name}:\n" + "\n".join(text.splitlines()[-30:]))
        raise
    finally:
        place.stop()


if __name__ == "__main__":
    main()
