"""A local webhook receiver: stores deliveries by path, and lets steps wait for them."""

import asyncio
import json
import uuid
from dataclasses import dataclass


@dataclass
class Delivery:
    headers: dict
    body: dict


class Receiver:
    async def __aenter__(self):
        self._kept = {}
        self._arrived = asyncio.Condition()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()

    def url(self):
        """A new URL without deliveries."""
        return f"http://127.0.0.1:{self._port}/{uuid.uuid4()}"

    def at(self, url):
        return self._kept.setdefault(url.rsplit("/", 1)[1], [])

    async def until(self, url, satisfied):
        """Waits until the deliveries to the URL satisfy a condition; the caller limits the time."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: satisfied(self.at(url)))
        return self.at(url)

    async def _serve(self, reader, writer):
        try:
            while (line := await reader.readline()).strip():
                _, path, _ = line.decode().split(" ", 2)
                headers = {}
                while field := (await reader.readline()).decode().strip():
                    name, _, value = field.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                async with self._arrived:
                    self.at(path).append(Delivery(headers, json.loads(body)))
                    self._arrived.notify_all()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
