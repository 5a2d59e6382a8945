"""The clients of the benchmark, in a process of its own. Each line on its standard input is a `Run`, answered by a `Figures`."""

from __future__ import annotations

import asyncio
import re
import sys
from time import monotonic
from typing import Literal

import msgspec

from bench.gateway_requests import MODEL, REPLY_WORDS, AgentSession

RAMP_SECONDS = 5.0
"""Within which paced streams begin."""
KEY = "sk-bench-caller-0f5c3a9d7e1b48265d90c7ab34ef6812"
_LAST_WORD = f" word{REPLY_WORDS - 1}".encode()
_CALL_ID = re.compile(rb'"((?:toolu|call)_[A-Za-z0-9_-]+)"')
_SENT_AT = re.compile(rb" t(\d{10}\.\d{4}) ")


class Run(msgspec.Struct, kw_only=True):
    """What the clients do."""

    port: int
    path: str
    kind: Literal["first", "open", "continue", "paced"] = "first"
    """`first`: requests of conversations that nobody has seen; `open`: the first requests of conversations that
    `continue` adds turns to; `paced`: streams that stay open."""
    clients: int = 1
    requests: int = 0
    """Of all clients; with `continue`, turns of each conversation."""
    size: int = 5
    """Messages in a first request."""
    stream: bool = True
    model: str = MODEL


class Figures(msgspec.Struct, kw_only=True):
    """What the clients saw."""

    requests: int = 0
    refused: int = 0
    """With a status other than 200."""
    incomplete: int = 0
    """Replies without their last word: a stream may fail behind its status."""
    statuses: dict[str, int] = {}
    seconds: float = 0.0
    latencies: list[float] = []
    """Of whole replies; of paced streams: from the sending of a chunk to its arrival."""
    first_bytes: list[float] = []
    """Seconds to the first byte of each reply."""
    chunks: int = 0
    reply_bytes: int = 0


class Client(asyncio.Protocol):
    """One connection that is used again and again."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.data = bytearray()
        self.status = 0
        self.first_byte = 0.0
        self.lags: list[float] | None = None
        self._asked = 0.0
        self._end: int | None = None
        self._body = 0
        self._done: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(exc or ConnectionError("closed"))

    def ask(self, data: bytes) -> asyncio.Future[bytes]:
        self.data.clear()
        self.status, self.first_byte, self._end, self._body = 0, 0.0, None, 0
        self._done = asyncio.get_running_loop().create_future()
        self._asked = monotonic()
        self.transport.write(data)
        return self._done

    def data_received(self, data: bytes) -> None:
        now = monotonic()
        self.data += data
        if not self._body and not self._read_head(now):
            return
        if self.lags is not None:
            self.lags += [now - float(sent) for sent in _SENT_AT.findall(data)]
            if len(self.data) > 65_536:  # a paced stream is not kept
                del self.data[self._body : -64]
        ended = self.data.endswith(b"\r\n0\r\n\r\n") if self._end is None else len(self.data) >= self._end
        if ended and self._done is not None and not self._done.done():
            self._done.set_result(bytes(self.data[self._body :]))

    def _read_head(self, now: float) -> bool:
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.data[:end]).lower()
        self.first_byte = now - self._asked
        self.status = int(head[9:12])
        self._body = end + 4
        length = re.search(rb"\r\ncontent-length: *(\d+)", head)
        self._end = self._body + int(length[1]) if length else None
        return True


def request_of(session: AgentSession, run: Run) -> bytes:
    body = session.body()
    fields = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "x-api-key": KEY,
        "anthropic-version": "2023-06-01",
        "content-length": str(len(body)),
        **session.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {run.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class Load:
    """All clients."""

    def __init__(self) -> None:
        self._opened: dict[int, list[AgentSession]] = {}

    async def run(self, run: Run) -> Figures:
        figures = Figures()
        loop = asyncio.get_running_loop()
        clients = [
            (await loop.create_connection(Client, "127.0.0.1", run.port))[1] for _ in range(run.clients)
        ]
        try:
            match run.kind:
                case "first":
                    await self._first(run, clients, figures)
                case "open":
                    count = run.requests
                    self._opened[run.port] = [_session(run) for _ in range(count)]
                    await self._turns(run, clients, figures, 1)
                case "continue":
                    await self._turns(run, clients, figures, run.requests)
                case "paced":
                    await self._paced(run, clients, figures)
        finally:
            for client in clients:
                client.transport.close()
        return figures

    async def _first(self, run: Run, clients: list[Client], figures: Figures) -> None:
        waiting = [request_of(_session(run), run) for _ in range(run.requests)]

        async def work(client: Client) -> None:
            while waiting:
                await _ask(client, waiting.pop(), figures)

        await _timed(work, clients, figures)

    async def _turns(self, run: Run, clients: list[Client], figures: Figures, turns: int) -> None:
        waiting = [*self._opened[run.port]]

        async def work(client: Client) -> None:
            while waiting:
                session = waiting.pop()
                for _ in range(turns):
                    reply = await _ask(client, request_of(session, run), figures)
                    call = _CALL_ID.search(reply)
                    if call is None:
                        raise RuntimeError(f"No call in {reply[:400]!r}")
                    session.answered(call[1].decode())

        await _timed(work, clients, figures)

    async def _paced(self, run: Run, clients: list[Client], figures: Figures) -> None:
        """Streams begin one after another."""

        async def work(client: Client) -> None:
            await asyncio.sleep(RAMP_SECONDS * clients.index(client) / len(clients))
            client.lags = []
            await _ask(client, request_of(_session(run), run), figures)
            figures.chunks += len(client.lags)
            figures.latencies += client.lags[20:]

        await _timed(work, clients, figures)
        figures.latencies.sort()
        figures.latencies = figures.latencies[:: max(1, len(figures.latencies) // 1000)]


def _session(run: Run) -> AgentSession:
    return AgentSession(size=run.size, stream=run.stream, model=run.model)


async def _timed(work: object, clients: list[Client], figures: Figures) -> None:
    started = monotonic()
    await asyncio.gather(*(work(client) for client in clients))  # type: ignore[operator]
    figures.seconds = monotonic() - started


async def _ask(client: Client, data: bytes, figures: Figures) -> bytes:
    started = monotonic()
    reply = await client.ask(data)
    if client.lags is None:
        figures.latencies.append(monotonic() - started)
    figures.requests += 1
    figures.refused += client.status != 200
    figures.incomplete += client.lags is None and not _is_complete(reply)
    figures.statuses[str(client.status)] = figures.statuses.get(str(client.status), 0) + 1
    figures.first_bytes.append(client.first_byte)
    figures.reply_bytes += len(reply)
    return reply


def _is_complete(reply: bytes) -> bool:
    return _LAST_WORD in reply or _LAST_WORD in re.sub(rb"\r\n[0-9a-f]+\r\n", b"", reply)


async def main() -> None:
    load = Load()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        figures = await load.run(msgspec.json.decode(line, type=Run))
        print(msgspec.json.encode(figures).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
