"""How far one request of the gateway walks: a client's on the Messages wire, translated to Chat, streamed, seen for the first time.

Counts the functions of segue that it calls, the files and packages they stand in, the calls from one package to another, the
deepest stack and the types of records that are handed on. `python -m bench exchange_trace`; with NAMES=1, all their names.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

import segue
from bench.gateway_requests import MODEL, AgentSession
from segue.config.schema import Config, GatewaySettings
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry

_ROOT = f"{Path(segue.__file__).parent}/"
_WARM = 3
_NUMBERS = count()


class Trace:
    """What was called."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.crossings: set[tuple[CodeType, CodeType]] = set()
        self.records: set[type] = set()
        self.deepest: list[str] = []

    def see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not _is_ours(code):
            return
        self.functions.add(code)
        self.records.update(kind for kind in map(type, frame.f_locals.values()) if _is_record(kind))
        stack = [code]
        above = frame.f_back
        while above is not None:
            if _is_ours(above.f_code):
                stack.append(above.f_code)
            above = above.f_back
        if len(stack) > 1 and package_of(stack[1]) != package_of(code):
            self.crossings.add((stack[1], code))
        if len(stack) > len(self.deepest):
            self.deepest = [name_of(one) for one in reversed(stack)]

    @contextmanager
    def watching(self) -> Iterator[None]:
        sys.setprofile(self.see)
        try:
            yield
        finally:
            sys.setprofile(None)


def _is_ours(code: CodeType) -> bool:
    # A comprehension is no function that a reader would count, and neither is the class body of a record.
    return code.co_filename.startswith(_ROOT) and not code.co_name.startswith("<")


def _is_record(kind: type) -> bool:
    fields = issubclass(kind, msgspec.Struct) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    return fields and kind.__module__.startswith("segue.")


def package_of(code: CodeType) -> str:
    return code.co_filename.removeprefix(_ROOT).rpartition("/")[0].partition("/")[0]


def name_of(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(_ROOT)}:{code.co_qualname}"


class Greeting:
    """A client whose conversation begins just now."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def body(self) -> bytes:
        said = [{"role": "user", "content": f"Hello, {next(_NUMBERS)}."}]
        return msgspec.json.encode({"model": MODEL, "max_tokens": 100, "stream": True, "messages": said})


async def ask(gateway: Gateway, session: AgentSession | Greeting) -> bytes:
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [(name.encode(), value.encode()) for name, value in session.headers.items()]
    scope: dict[str, Any] = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/messages", "raw_path": b"/v1/messages",
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http",
    }  # fmt: skip
    body = [session.body()]
    answered: list[bytes] = []
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answered.append(message.get("body", b""))
        if message["type"] == "http.response.start" and message["status"] != 200:
            raise RuntimeError(f"Status {message['status']}")

    await gateway(scope, receive, send)
    ended.set()
    return b"".join(answered)


async def traced(port: int, new: Callable[[], AgentSession | Greeting]) -> Trace:
    """A request of a warm gateway."""
    config = Config(gateway=GatewaySettings(models={"*": "openai/gpt-4.1"}))
    there = ProviderConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key=Secret("sk-upstream"))
    providers = default_registry({"openai": there}, environ={}, keyring=False)
    gateway = Gateway(config, providers, Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32)))
    for _ in range(_WARM):
        await ask(gateway, new())
    trace = Trace()
    session = new()
    with trace.watching():
        reply = await ask(gateway, session)
    if b"message_stop" not in reply:
        raise RuntimeError(f"No whole reply: {reply[-200:]!r}")
    await gateway.close()
    return trace


def run() -> None:
    upstream = subprocess.Popen(
        [sys.executable, "-m", "bench.gateway_upstream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert upstream.stdout is not None
        port = int(upstream.stdout.readline())
        traces = {
            "a greeting": asyncio.run(traced(port, Greeting)),
            "an agent's": asyncio.run(traced(port, lambda: AgentSession(size=5))),
        }
    finally:
        upstream.kill()
        upstream.wait()
    for name, trace in traces.items():
        files = {code.co_filename for code in trace.functions}
        print(
            f"{name}: {len(trace.functions)} functions in {len(files)} files, {len(trace.crossings)} calls between packages, "
            f"{len(trace.deepest)} deep, {len(trace.records)} types of records",
            flush=True,
        )
    if os.environ.get("NAMES"):
        _print_names(trace)


def _print_names(trace: Trace) -> None:
    by_file: dict[str, list[str]] = {}
    for code in trace.functions:
        by_file.setdefault(code.co_filename.removeprefix(_ROOT), []).append(code.co_qualname)
    for file in sorted(by_file):
        print(f"{file} ({len(by_file[file])}): {', '.join(sorted(by_file[file]))}")
    records = sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in trace.records)
    crossings = sorted(f"{name_of(one)} -> {name_of(two)}" for one, two in trace.crossings)
    for title, names in (("deepest", trace.deepest), ("records", records), ("crossings", crossings)):
        print(f"{title}:", *names, sep="\n  ")
