"""The least that HTTP costs in Python: a protocol of asyncio and a parser in C on either side, which pass the same bytes on by
plain calls. What the gateway adds to it is the gateway's own."""

from __future__ import annotations

import asyncio
import sys
from collections import deque

import httptools

from segue.gateway.server.process import open_listener

_SENT = (b"content-type", b"accept", b"anthropic-beta", b"anthropic-version")


class Client(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, port: int, idle: deque[Provider]) -> None:
        self._port = port
        self._idle = idle
        self._parser = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport
        self._url = b""
        self._fields: list[bytes] = []
        self._body: list[bytes] = []
        self._connecting: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._fields, self._body = b"", [], []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name in _SENT:
            self._fields.append(b"%b: %b\r\n" % (name, value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        head = b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n%b\r\n" % (
            self._url,
            len(body),
            b"".join(self._fields),
        )
        if self._idle:
            self._idle.pop().ask(self, head + body)
        else:
            self._connecting = asyncio.ensure_future(self._connect(head + body))

    async def _connect(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, provider = await loop.create_connection(lambda: Provider(self._idle), "127.0.0.1", self._port)
        provider.ask(self, request)


class Provider(asyncio.Protocol):
    """One connection to the provider."""

    def __init__(self, idle: deque[Provider]) -> None:
        self._idle = idle
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._client: Client
        self._head: list[bytes] = []
        self._out: list[bytes] = []
        self._chunked = True
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, client: Client, request: bytes) -> None:
        self._client, self._ended = client, False
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        out, self._out = self._out, []
        body = b"".join(out)
        if self._chunked and body:
            body = b"%x\r\n%b\r\n" % (len(body), body)
        if self._chunked and self._ended:
            body += b"0\r\n\r\n"
        head, self._head = b"".join(self._head), []
        self._client.transport.write(head + body)
        if self._ended:
            self._idle.append(self)

    def on_message_begin(self) -> None:
        self._chunked = True
        self._head = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self._chunked = False
        if name in (b"content-type", b"content-length"):
            self._head.append(b"%b: %b\r\n" % (name, value))

    def on_headers_complete(self) -> None:
        status = b"HTTP/1.1 %d OK\r\n" % self._parser.get_status_code()
        framing = b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        self._head = [status, *self._head, framing]

    def on_body(self, body: bytes) -> None:
        self._out.append(body)

    def on_message_complete(self) -> None:
        self._ended = True


async def main() -> None:
    listener = open_listener("127.0.0.1", 0)
    idle: deque[Provider] = deque()
    port = int(sys.argv[1].rpartition(":")[2])
    server = await asyncio.get_running_loop().create_server(lambda: Client(port, idle), sock=listener)
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
