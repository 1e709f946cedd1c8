"""The server of server.py over HTTP. The arguments are a list of variations of its behaviour, and the file to which it writes its port. It
appends every request to the file that the variable HEARD names."""

import base64
import hashlib
import http.server
import json
import os
import queue
import sys
import threading
import urllib.parse

sys.argv[1:2] = sys.argv[1:2] or [""]
import server  # noqa: E402

has = server.has
lock = threading.Lock()
sessions = set()
made = 0
calls = 0
older = queue.Queue()
streams = 0


def note(handler, body=None):
    keep = ["mcp-session-id", "mcp-protocol-version", "authorization", "x-key", "accept", "last-event-id"]
    fields = {name: handler.headers[name] for name in keep if name in handler.headers}
    line = {"http": handler.command, "path": handler.path, "headers": fields, **(body or {})}
    with lock, open(os.environ["HEARD"], "a") as file:
        file.write(json.dumps(line) + "\n")


class Logins:
    """An authorization server: the codes, tokens and refresh tokens that it accepts."""

    def __init__(self):
        self.number = 0
        self.codes = {}
        self.access = None
        self.refresh = None

    def metadata(self, base):
        found = {
            "issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
            "registration_endpoint": base + "/register", "code_challenge_methods_supported": ["plain" if has("plain") else "S256"],
        }
        if has("unregistered"):
            del found["registration_endpoint"]
        return found

    def authorize(self, query):
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        answer = {"code": code, "state": "forged" if has("forged") else query["state"], "iss": query["resource"].rsplit("/", 1)[0]}
        return query["redirect_uri"] + "?" + urllib.parse.urlencode(answer)

    def token(self, form):
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self.refresh:
                return 400, {"error": "invalid_grant"}
        else:
            asked = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
            assert form["redirect_uri"] == asked["redirect_uri"] and form["resource"] == asked["resource"]
        self.number += 1
        self.access, self.refresh = f"access-token-{self.number}", f"refresh-token-{self.number}"
        return 200, {"access_token": self.access, "refresh_token": self.refresh, "expires_in": 3600, "token_type": "Bearer"}


logins = Logins()


def event(message, number=None):
    end = "\r\n" if has("crlf") else "\n"
    lines = ([f"id: {number}"] if number else []) + ["event: message", "data: " + json.dumps(message), "", ""]
    return end.join(lines).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", **fields):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, **fields):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True

    def base(self):
        return "http://" + self.headers["Host"]

    def login_page(self):
        """The pages of the authorization server, and two pages that revoke tokens."""
        path, _, query = self.path.partition("?")
        if path == "/.well-known/oauth-protected-resource/mcp":
            place = "http://127.0.0.2:9/mcp" if has("elsewhere") else self.base() + "/mcp"
            found = {"resource": place, "authorization_servers": [self.base()]}
            self.answer(200, json.dumps(found).encode())
        elif path == "/.well-known/oauth-authorization-server":
            self.answer(200, json.dumps(logins.metadata(self.base())).encode())
        elif path == "/authorize":
            self.answer(302, Location=logins.authorize(dict(urllib.parse.parse_qsl(query))))
        elif path in ("/revoke", "/revoke-all"):
            logins.access = None
            logins.refresh = None if path == "/revoke-all" else logins.refresh
            self.answer(200)
        else:
            return False
        return True

    def login_post(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/register":
            note(self, {"registered": json.loads(body)})
            return self.answer(201, json.dumps({"client_id": "registered"}).encode())
        form = dict(urllib.parse.parse_qsl(body))
        with lock:
            status, found = logins.token(form)
        note(self, {"grant": form["grant_type"], "client": form["client_id"]})
        return self.answer(status, json.dumps(found).encode())

    def do_GET(self):
        note(self)
        if has("oauth") and self.login_page():
            return None
        if self.path == "/sse":
            return self.older_stream()
        last = self.headers.get("Last-Event-ID")
        if last:
            self.stream()
            for step in (2, 3):
                self.wfile.write(event(progress(step), step))
            self.wfile.write(event({"jsonrpc": "2.0", "id": cut["id"], "result": server.text("resumed")}, 4))
            return None
        if has("noget"):
            return self.answer(404 if has("missing") else 405)
        if has("short"):
            return self.stream()
        self.stream()
        self.wfile.write(b": hello\n\n")
        self.wfile.flush()
        return threading.Event().wait(60)

    def older_stream(self):
        global streams
        streams += 1
        if has("http-only"):
            return self.answer(404)
        if has("refuses") and streams == 2:
            self.close_connection = True
            return None
        self.stream()
        if has("mute"):
            self.wfile.write(b": wait\n\n")
            self.wfile.flush()
            return threading.Event().wait()
        place = "http://127.0.0.2:9/elsewhere" if has("foreign") else "/message?session=1"
        self.wfile.write(f"event: endpoint\ndata: {place}\n\n".encode())
        self.wfile.flush()
        while (message := older.get()) is not None:
            self.wfile.write(event(message))
            self.wfile.flush()
        return None

    def do_DELETE(self):
        note(self)
        self.answer(200)

    def do_POST(self):
        global made, calls, cut
        if has("oauth") and self.path in ("/register", "/token"):
            return self.login_post()
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note(self, message)
        method = message.get("method")
        if self.path.startswith("/message"):
            if has("ends") and method == "tools/call" and message["params"]["name"] == "never":
                self.answer(202)
                return older.put(None)
            result = server.answer(message) if "id" in message else None
            if result is not None:
                older.put({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return self.answer(202)
        if self.path == "/sse":
            return self.answer(405)
        if has("echoes"):
            words = f"{self.path} {self.headers.get('Authorization')}"
            return self.answer(500, words.encode(), "text/plain")
        if has("oauth"):
            os.environ["TOKEN"] = self.headers.get("Authorization", "")
            if self.headers.get("Authorization") != f"Bearer {logins.access}":
                return self.answer(401, WWW_Authenticate='Bearer error="invalid_token", scope="tools"')
        if has("auth"):
            return self.answer(401, WWW_Authenticate="Bearer")
        if has("away"):
            place = os.environ.get("AWAY") or "http://127.0.0.2:9/away"
            return self.answer(307 if has("307") else 302, Location=place)
        if has("moved") and self.path == "/mcp":
            return self.answer(307, Location="/moved")
        if method == "initialize":
            if has("leaves") and made:
                return self.answer(503)
            made += 1
            sessions.add(f"s{made}")
            return self.result(message, server.answer(message), Mcp_Session_Id=f"s{made}")
        if self.headers.get("Mcp-Session-Id") not in sessions:
            return self.lost()
        if has("deaf") and method == "notifications/cancelled":
            return threading.Event().wait()
        if "id" not in message:
            return self.answer(202)
        if method == "tools/call":
            calls += 1
            if has("deaf"):
                return threading.Event().wait()
            if (has("forgets") and calls == 1) or has("forgetful"):
                sessions.clear()
                return self.lost()
            if has("cut"):
                cut = message
                self.stream()
                return self.wfile.write(event(progress(1), 1 if has("ids") else None))
            if has("broken"):
                body = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32603, "message": "it is broken"}}
                return self.answer(500, json.dumps(body).encode())
        return self.result(message, server.answer(message))

    def lost(self):
        if has("bad"):
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}
            return self.answer(400, json.dumps(body).encode())
        return self.answer(404, b"Session not found", "text/plain")

    def result(self, message, result, **fields):
        answer = {"jsonrpc": "2.0", "id": message["id"], **(result if "error" in result else {"result": result})}
        if has("events"):
            self.stream(**fields)
            return self.wfile.write(event(answer))
        return self.answer(200, json.dumps(answer).encode(), **fields)


def progress(step):
    params = {"progressToken": str(cut["id"]), "progress": step, "total": 3, "message": f"part {step}"}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


cut = None


def main():
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    listener.daemon_threads = True
    with open(sys.argv[2] + ".new", "w") as file:
        file.write(str(listener.server_address[1]))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    listener.serve_forever()


main()
