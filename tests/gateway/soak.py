"""A gateway under load for long, with a provider that fails, clients that leave and clients that read slowly: `make soak`.

Each request says in its model's name what becomes of it. A client that stays gets either all of its reply, or an error in the form of its
wire. Each request that its provider got is counted, to the token where its provider reported all of it, and else by an estimate that
says so (`soak_counts.py`). Beside the caches, whose bytes the gateway counts itself, memory stays as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, MIB, MODEL, AttackedGateway
from gateway.limited_callers import caller_settings, key_of
from gateway.soak_counts import TOKENS, Asked, Comparison, Logged, LogReader, Reported, compare

KINDS: Final = {
    "whole": 60,
    "slow": 6,
    "leaves": 8,
    "hangs-up": 4,
    "reset": 5,
    "stall": 1,
    "garbled": 4,
    "error": 5,
    "busy": 5,
}
"""What becomes of a request, and how often."""
COMPLETE: Final = ("whole", "slow")
GONE: Final = ("leaves", "hangs-up")
WORDS: Final = {**dict.fromkeys(KINDS, 5), "whole": 40, "slow": 1500, "leaves": 200}
READ_TOKENS: Final = 10
TURNS: Final = 12
"""After which a client begins a new conversation."""
_IDLE: Final = 15.0
"""Seconds until a provider that says nothing is given up. On a busy machine, one that works may be silent for seconds."""
_MOST_CLIENTS: Final = 128
_AT_ONCE: Final = 10
"""Chunks that the provider writes together."""
_TEXT_DELTA: Final = re.compile(rb'"text_delta","text":"([^"\\]*)"')
_WORDS_OF_A_MESSAGE: Final = "Some words of a user, and what a tool has found in a file of the project. " * 20
_CHUNK: Final = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1"}
_REPORTED: defaultdict[str, Reported] = defaultdict(Reported)
"""In the provider's process: what became of each request there."""
_WARM_BYTES: Final = 48 * MIB
"""For the caches: so little that they are full after some hundred requests, and what else grows is seen."""
_SETTINGS: Final = f"""\
models = {{ "soak-*" = "{MODEL}" }}
[gateway.limits]
lag = 60
warm_bytes = {_WARM_BYTES}
"""
_WITHOUT_INSPECTOR: Final = "[gateway.inspect]\nenabled = false\n"
"""It keeps 2 KB of each of the last 10,000 requests, and some of 10,000 conversations: so much is sent only in half an hour."""


class Soaked(Struct):
    """What was sent and what came of it."""

    sent: Counter[str]
    lost: list[str]
    """Requests whose clients got neither a whole reply nor an error, and whatever else is not as it should be."""
    sizes: list[int]
    """Megabytes of the gateway at each look, without those of its caches and of running requests."""
    counts: Comparison
    share: float = 0.0
    """Of a core, on average."""
    seconds: float = 0.0


# The provider


async def _provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET "):
                body = msgspec.json.encode(_REPORTED)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                continue
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            asked = json.loads(await reader.readexactly(size))
            if not await _reply(writer, asked["messages"][-1]["content"].split()[:2]):
                break
    writer.transport.abort()


async def _reply(writer: asyncio.StreamWriter, asked: list[str]) -> bool:
    """Whether the connection goes on."""
    kind, number = asked
    reported = _REPORTED[f"soak-{number}"]
    reported.tries += 1
    if kind in ("error", "busy"):
        reported.refused += 1
        status = b"500 Broken" if kind == "error" else b"429 Busy"
        body = b'{"error":{"message":"no","type":"server_error"}}'
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        return True
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    writer.write(_chunk({"role": "assistant", "content": f"{number}:"}))
    if kind == "hangs-up":
        await asyncio.sleep(0.5)
    words = WORDS[kind]
    for place in range(0, words, _AT_ONCE):
        if writer.is_closing():
            return False
        writer.write(_words(place, min(words, place + _AT_ONCE)))
        await writer.drain()
        await asyncio.sleep(0.02 if kind == "leaves" else 0)
    if kind == "reset":
        return False
    if kind == "stall":
        await asyncio.sleep(1.5 * _IDLE)
        return False
    if kind == "garbled":
        writer.write(_frame(b"data: {not json\n\n"))
    else:
        usage = {
            "prompt_tokens": READ_TOKENS,
            "completion_tokens": words,
            "total_tokens": READ_TOKENS + words,
        }
        writer.write(_chunk({}, finish_reason="stop", usage=usage) + _frame(b"data: [DONE]\n\n"))
        reported.whole += 1
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


@cache
def _words(begin: int, end: int) -> bytes:
    """Chunks of a reply. The provider must cost less than the gateway, which it is to keep busy."""
    return b"".join(_chunk({"content": f" word{word}"}) for word in range(begin, end))


def _chunk(delta: dict[str, str], *, finish_reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _frame(b"data: %b\n\n" % json.dumps({**_CHUNK, "choices": [choice], **more}).encode())


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve() -> None:
    server = await asyncio.start_server(_provide, "127.0.0.1", 0, limit=1 << 24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextlib.contextmanager
def _provider() -> Iterator[str]:
    process = subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, __file__, "--provide"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path[1:]])},
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# The clients


class _Clients:
    """As many as keep the gateway as busy as it is wanted."""

    def __init__(self, gateway: AttackedGateway, seed: int, most: int) -> None:
        """`most`: clients at a time."""
        self.found = Soaked(Counter(), [], [], Comparison([]))
        self.asked: dict[str, Asked] = {}
        self.log = LogReader()
        self._gateway = gateway
        self._dice = random.Random(seed)
        self._running: list[asyncio.Task[None]] = []
        self._wanted = min(4, most)
        self._most = most
        self._number = 0
        self._shown = 0
        """So many of what was lost were printed."""

    async def run(self, seconds: float, share: float, looks: int) -> None:
        began, cpu = time.monotonic(), self._cpu()
        look_at, before = began, (began, cpu)
        while (now := time.monotonic()) < began + seconds:
            self._running = [task for task in self._running if not task.done()]
            while len(self._running) < self._wanted:
                self._running.append(asyncio.ensure_future(self._converse()))
            await asyncio.sleep(1.0)
            busy = (self._cpu() - before[1]) / (time.monotonic() - before[0])
            before = time.monotonic(), self._cpu()
            self.log.feed(self._gateway.take_lines())
            step = 5 * (busy < share) - 5 * (busy > 1.1 * share)
            self._wanted = min(max(self._wanted + step, 2), self._most)
            if now >= look_at:
                look_at += seconds / looks
                self._look(now - began, busy)
        self._wanted = 0
        await asyncio.gather(*self._running)
        self.found.seconds = time.monotonic() - began
        self.found.share = (self._cpu() - cpu) / self.found.seconds

    def _look(self, seconds: float, busy: float) -> None:
        size, warm, held = self._gateway.memory // MIB, self.log.warm // MIB, self.log.held // MIB
        self.found.sizes.append(size - warm - held)
        sys.stdout.write(
            f"{seconds:6.0f} s {self.found.sent.total():9,d} requests {len(self._running):3d} clients {100 * busy:4.0f} % of a core "
            f"{size:5d} MiB, {warm:3d} of caches, {held:3d} of requests {self._gateway.open_files:4d} files {len(self.found.lost)} lost\n"
        )
        sys.stdout.writelines(f"       {line}\n" for line in self.found.lost[self._shown :][:5])
        self._shown = len(self.found.lost)
        sys.stdout.flush()

    def _cpu(self) -> float:
        return time.clock_gettime((~self._gateway.process.pid << 3) | 2)

    async def _converse(self) -> None:
        messages: list[dict[str, str]] = []
        while len(self._running) <= self._wanted and self._wanted:
            if len(messages) >= 2 * TURNS:
                messages = []
            self._number += 1
            kind = self._dice.choices([*KINDS], [*KINDS.values()])[0]
            said = f"{kind} {self._number} {_WORDS_OF_A_MESSAGE}"
            asked = [*messages, {"role": "user", "content": said}]
            try:
                reply = await self._ask(kind, self._number, asked)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                self.found.lost.append(f"{kind} {self._number}: {type(error).__name__} {error}")
                continue
            if reply:
                messages = [*asked, {"role": "assistant", "content": reply}]

    async def _ask(self, kind: str, number: int, messages: list[dict[str, str]]) -> str:
        """The reply, if all of it came."""
        body = json.dumps(
            {"model": f"soak-{kind}", "max_tokens": 5000, "stream": True, "messages": messages}
        ).encode()
        limit = 4096 if kind == "slow" else 1 << 16
        reader, writer = await asyncio.open_connection("127.0.0.1", self._gateway.port, limit=limit)
        try:
            writer.write(
                b"POST /v1/messages HTTP/1.1\r\nhost: soak\r\nx-api-key: %b\r\ncontent-type: application/json\r\n"
                b"x-request-id: soak-%d\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
                % (key_of(CALLER).encode(), number, len(body), body)
            )
            self.asked[f"soak-{number}"] = Asked(kind, len(body))
            await writer.drain()
            self.found.sent[kind] += 1
            if kind == "hangs-up":
                await asyncio.sleep(0.2)
                return ""
            if kind == "leaves":
                await reader.readuntil(b"word0")
                return ""
            data = b""
            while portion := await reader.read(limit):
                data += portion
                if kind == "slow":
                    await asyncio.sleep(0.01)
        finally:
            writer.transport.abort()
        return self._judged(kind, number, data)

    def _judged(self, kind: str, number: int, data: bytes) -> str:
        failed = b"event: error" in data or b'"type":"error"' in data
        whole = b"event: message_stop" in data
        text = b"".join(_TEXT_DELTA.findall(data)).decode()
        expected = f"{number}:" + "".join(f" word{word}" for word in range(WORDS[kind]))
        if kind in COMPLETE and whole and not failed and text == expected:
            return text
        if kind in COMPLETE or whole or not failed or not expected.startswith(text):
            self.found.lost.append(f"{kind} {number}: {data[-200:]!r}")
        return ""


# What was counted


def uncounted(
    sent: Counter[str], rows: list[dict[str, Any]], logged: Iterable[tuple[str, Logged]]
) -> list[str]:
    """Where the usage of the caller is not the sum of what the log has for its requests. `logged`: with the kind of each."""
    due: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for kind, entry in logged:
        due[kind].update(dict(zip(("requests", *TOKENS), (1, *entry.tokens), strict=True)))
    found: list[str] = []
    for kind in sent:
        counted: Counter[str] = Counter()
        for row in rows:
            if row["asked"] == f"soak-{kind}":
                counted.update({name: row.get(name, 0) for name in ("requests", *TOKENS)})
        if +counted != +due[kind]:
            found.append(f"{kind}: {dict(counted)} in the usage, {dict(due[kind])} in the log")
    return found


def grown(sizes: list[int]) -> list[str]:
    """Whether the last third is larger than the one before it."""
    third = len(sizes) // 3
    if third and (last := max(sizes[-third:])) > 1.1 * max(sizes[-2 * third : -third]) + 8:
        return [f"memory grew to {last} MiB: {sizes}"]
    return []


async def _usage(gateway: AttackedGateway, clients: _Clients) -> list[dict[str, Any]]:
    """As soon as all that was logged is in it."""
    rows: list[dict[str, Any]] = []
    for _ in range(60):
        await asyncio.sleep(0.5)
        clients.log.feed(gateway.take_lines())
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1 << 22)
        writer.write(
            b"GET /segue/v1/usage HTTP/1.1\r\nhost: soak\r\nauthorization: Bearer %b\r\nconnection: close\r\n\r\n"
            % key_of("operator").encode()
        )
        answer = await reader.read(-1)
        writer.close()
        rows = json.loads(answer.partition(b"\r\n\r\n")[2])["usage"]
        logged = clients.log.requests
        certain = [name for name, one in clients.asked.items() if one.kind != "hangs-up"]
        if all(name in logged for name in certain) and sum(row["requests"] for row in rows) >= len(logged):
            break
    return rows


def soak(
    seconds: float,
    share: float,
    *,
    looks: int = 30,
    seed: int = 37,
    most: int = _MOST_CLIENTS,
    inspected: bool = False,
) -> Soaked:
    with _provider() as url, tempfile.TemporaryDirectory(prefix="segue-soak-") as place:
        operator = caller_settings("operator", "admin = true")
        gateway = AttackedGateway(
            Home(Path(place) / "home"),
            url,
            _SETTINGS + ("" if inspected else _WITHOUT_INSPECTOR) + operator,
            callers={CALLER: ""},
            log="json",
            provider=f"timeouts = {{ idle = {_IDLE} }}",
        )
        try:
            clients = _Clients(gateway, seed, most)

            async def run() -> list[dict[str, Any]]:
                await clients.run(seconds, share, looks)
                return await _usage(gateway, clients)

            rows = asyncio.run(run())
            found = clients.found
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own provider
                reported = msgspec.json.decode(answer.read(), type=dict[str, Reported])
            asked, log = clients.asked, clients.log
            tokens = {kind: (READ_TOKENS, words) for kind, words in WORDS.items()}
            found.counts = compare(asked, reported, log.requests, tokens)
            logged = ((asked[name].kind, entry) for name, entry in log.requests.items() if name in asked)
            found.lost += (
                found.counts.wrong + uncounted(found.sent, rows, logged) + grown(found.sizes) + log.faults
            )
            return found
        finally:
            gateway.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--clients", type=int, default=_MOST_CLIENTS, help="at most at a time")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument(
        "--inspected", action="store_true", help="with the inspector, whose record grows for long"
    )
    parser.add_argument("--provide", action="store_true")
    asked = parser.parse_args()
    if asked.provide:
        asyncio.run(_serve())
        return
    found = soak(
        asked.minutes * 60, asked.share, seed=asked.seed, most=asked.clients, inspected=asked.inspected
    )
    counts = found.counts
    sys.stdout.write(
        f"{found.sent.total():,d} requests in {found.seconds:.0f} s at {100 * found.share:.0f} % of a core: "
        + ", ".join(f"{count:,d} {kind}" for kind, count in found.sent.items())
        + f"\n{counts.exact:,d} counted as their provider reported them, {counts.estimated.total():,d} by an estimate:\n"
        + "".join(
            "  {}: {:,d} requests, {:,d} tokens read and {:,d} written beyond what was reported\n".format(
                reason, count, *counts.surplus[reason]
            )
            for reason, count in counts.estimated.most_common()
        )
        + f"memory beside the caches {found.sizes[0]} to {found.sizes[-1]} MiB, {len(found.lost)} lost or not counted\n"
        + "".join(f"{line}\n" for line in found.lost[:50])
    )
    sys.exit(1 if found.lost else 0)


if __name__ == "__main__":
    main()
