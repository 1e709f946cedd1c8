#!/usr/bin/env python3
"""Our clients of object stores with servers of other projects.

    bucket.py KIT PLACE

KIT has the packages in python-bucket, PLACE is an empty directory. The S3 client works with moto, which also checks its signatures; the
start probe refuses gcp-storage-emulator, which ignores preconditions; PyJWT verifies what a service account signs. The clients are driven by
the ignored tests of tests/bucket/live.rs.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(method, url, body=None, headers=()):
    request = urllib.request.Request(url, method=method, data=body, headers=dict(headers))
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.read()


def listening(port):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE:.0f} s for a server at port {port}")


def live(name, what, **variables):
    """Runs one of the ignored tests with these variables, without those of the caller that configure stores."""
    foreign = ("AWS_", "GOOGLE_", "A2A_", "GCS_", "STORAGE_", "HTTP_PROXY", "HTTPS_PROXY")
    environment = {key: value for key, value in os.environ.items() if not key.upper().startswith(foreign)}
    command = ["cargo", "test", "--quiet", "--test", "bucket", "--", "--ignored", "--exact", f"live::{name}"]
    done = subprocess.run(command, cwd=ROOT, env=environment | variables, capture_output=True, text=True)
    if done.returncode != 0 or "1 passed" not in done.stdout:
        raise AssertionError(f"{what}: {done.stdout}{done.stderr}")
    print(f"bucket, {what}: ok")


def with_moto(program, log):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    try:
        listening(port)
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url}
        ask("PUT", f"{url}/live")
        live("live_store", "S3 at moto", A2A_S3_BUCKET="live", **keys)
        live("live_store_without_a_bucket", "S3 at moto, no such bucket", A2A_S3_BUCKET="no-such-bucket", **keys)
        keys = moto_user(url)
        # From here on, moto checks signatures and rights.
        ask("POST", f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        keys |= {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url, "A2A_S3_BUCKET": "live"}
        live("live_store", "S3 at moto with signatures checked", **keys)
        live("live_store_refuses_the_keys", "S3 at moto, wrong key", **keys | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    finally:
        server.terminate()
        server.wait()


def moto_user(url):
    """The keys of a user with all rights."""

    def iam(**form):
        body = urllib.parse.urlencode({"Version": "2010-05-08", "UserName": "u", **form}).encode()
        scope = "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=x"
        return ask("POST", f"{url}/", body, {"Authorization": scope}).decode()

    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam(Action="CreateUser")
    iam(Action="PutUserPolicy", PolicyName="all", PolicyDocument=json.dumps(policy))
    made = iam(Action="CreateAccessKey")
    part = lambda tag: made.split(f"<{tag}>")[1].split(f"</{tag}>")[0]  # noqa: E731
    return {"AWS_ACCESS_KEY_ID": part("AccessKeyId"), "AWS_SECRET_ACCESS_KEY": part("SecretAccessKey")}


def with_gcp_storage_emulator(program, log, place):
    port = free_port()
    command = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=live"]
    server = subprocess.Popen(command, stdout=log, stderr=log, cwd=place)
    try:
        listening(port)
        variables = {"A2A_GCS_BUCKET": "live", "STORAGE_EMULATOR_HOST": f"127.0.0.1:{port}"}
        live("live_store_without_preconditions", "gcp-storage-emulator is refused", **variables)
    finally:
        server.terminate()
        server.wait()


def with_pyjwt(place):
    """A token server that verifies requests with another library."""
    import jwt
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    problems = []

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self):
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            answer, status = {"access_token": "verified", "expires_in": 3600}, 200
            try:
                claims = jwt.decode(form["assertion"], key.public_key(), algorithms=["RS256"], audience=uri)
                if claims["exp"] - claims["iat"] != 3600 or claims["iss"] != "me@p.iam.gserviceaccount.com":
                    raise ValueError(f"claims: {claims}")
                if jwt.get_unverified_header(form["assertion"]).get("kid") != "k1":
                    raise ValueError("the header names another key")
            except Exception as error:  # noqa: BLE001 (the client has to be told, whatever it is)
                problems.append(error)
                answer, status = {"error": "invalid_grant", "error_description": str(error)}, 400
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Tokens)
    uri = f"http://127.0.0.1:{server.server_port}/token"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file = place / "service-account.json"
    account = {"type": "service_account", "private_key_id": "k1", "private_key": pem, "token_uri": uri}
    file.write_text(json.dumps(account | {"client_email": "me@p.iam.gserviceaccount.com"}))
    live("live_token", "PyJWT verifies a service account", GOOGLE_APPLICATION_CREDENTIALS=str(file))
    server.shutdown()
    if problems:
        raise AssertionError(f"refused: {problems}")


def main():
    kit, place = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    programs = kit / "python-bucket/bin"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "log").open("w") as log:
        with_moto(programs / "moto_server", log)
        with_gcp_storage_emulator(programs / "gcp-storage-emulator", log, place)
        with_pyjwt(place)


main()
