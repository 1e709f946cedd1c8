"""Forwards connections to a server and records the requests of its A2A clients.

    recorder.py URL FILE

Prints its own address. For each message that is sent, FILE gets a line of JSON: whether the reply shall be streamed, and whether the
message names a task and a context. Agent cards name the host that they are asked by, so clients come back here.
"""

import asyncio
import json
import re
import sys
from urllib.parse import urlsplit


def noted(head, body):
    request = json.loads(body or "{}")
    message = request.get("params", request).get("message")
    if message:
        # The method of a JSON-RPC request, or the path of a REST request.
        stream = re.search("stream", request.get("method", head.decode().splitlines()[0]), re.IGNORECASE)
        yield {"stream": bool(stream), "task": bool(message.get("taskId")), "context": bool(message.get("contextId"))}


async def pass_requests(client, server, file):
    while head := await client.readuntil(b"\r\n\r\n"):
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        body = await client.readexactly(int(length[1]) if length else 0)
        for note in noted(head, body):
            print(json.dumps(note), file=file, flush=True)
        server.write(head + body)
        await server.drain()


async def pass_responses(server, client):
    while data := await server.read(65536):
        client.write(data)
        await client.drain()


async def main(url, path):
    to = urlsplit(url)
    with open(path, "w") as file:

        async def serve(client, to_client):
            server, to_server = await asyncio.open_connection(to.hostname, to.port)
            work = [pass_requests(client, to_server, file), pass_responses(server, to_client)]
            # A connection that one side closes is closed on the other side too.
            await asyncio.wait([asyncio.create_task(one) for one in work], return_when=asyncio.FIRST_COMPLETED)
            to_server.close()
            to_client.close()

        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
        await listener.serve_forever()


asyncio.run(main(*sys.argv[1:]))
