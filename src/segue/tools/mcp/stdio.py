"""A server as a child process: messages as lines of JSON on its standard input and output, complaints on its error output.

Like any program that we start, it gets none of our keys and ends with us. It runs in the sandbox of the chat; what its
entry names it may use, and the network, for most servers are there to reach something. A line has a limit: a server that
writes without end must not fill the memory.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import asynccontextmanager, suppress
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from segue.system.child_process import ChildProcess, child_environment, read_pipe
from segue.system.worker_threads import in_thread
from segue.text.redaction import redact_known, redact_values
from segue.tools.sandbox.policy import Grant, repositories
from segue.tools.sandbox.sandbox import ConfinedProcess, Sandbox, start_confined

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from typing import TextIO

    from segue.tools.mcp.config import ServerConfig, StdioAddress
    from segue.tools.sandbox.policy import SandboxPolicy

MAX_LINE: Final = 32 << 20
GRACE: Final = 2.0
"""Seconds to end by itself after its input has ended, and again after being asked to."""
_FLUSH_SECONDS: Final = 0.5
_MAX_KEPT: Final = 4_000
_MAX_SHOWN: Final = 1_000
"""Bytes and characters of what it wrote to its standard error."""
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def server_environment(address: StdioAddress) -> dict[str, str]:
    """A few variables that programs need, none of which holds a key, and what the user wrote for this server."""
    own = child_environment()
    return {name: own[name] for name in _INHERITED if name in own} | address.env


@asynccontextmanager
async def stdio_transport(
    server: ServerConfig, address: StdioAddress, stderr: TextIO, sandbox: Sandbox
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server; what is received and what is to be sent, as the SDK wants them. Raises OSError."""
    import anyio  # noqa: PLC0415 - comes with the SDK

    running = await _start(server, address, stderr, sandbox)
    child = running.child
    reader, transport = await read_pipe(child.output, limit=MAX_LINE)
    received, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, to_send = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        sending = asyncio.Event()
        tasks.start_soon(_receive, reader, received)
        tasks.start_soon(_send, to_send, child, received, sending)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                with suppress(TimeoutError):
                    await asyncio.wait_for(sending.wait(), _FLUSH_SECONDS)
                await _stop(child)
                await running.close()
                transport.close()
            tasks.cancel_scope.cancel()


async def _start(
    server: ServerConfig, address: StdioAddress, stderr: TextIO, sandbox: Sandbox
) -> ConfinedProcess:
    environment = server_environment(address)
    # The watchdog starts it, and could only report that it did not: so a missing program is noticed before.
    place = Path(address.cwd or ".", address.command) if "/" in address.command else address.command
    if shutil.which(place, path=environment.get("PATH")) is None:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), address.command)
    words, streams = (address.command, *address.args), {"stdin": asyncio.subprocess.PIPE, "stderr": stderr}
    if server.sandboxed and await in_thread(lambda: sandbox.confines):
        policy = await in_thread(lambda: server_policy(server, address, sandbox))
        return await start_confined(sandbox.mechanism, words, policy, environment, lasting=True, **streams)
    child = await ChildProcess.start(words, cwd=address.cwd, env=environment, **streams)
    return ConfinedProcess(child, None, (), ())


def server_policy(server: ServerConfig, address: StdioAddress, sandbox: Sandbox) -> SandboxPolicy:
    """As for a command, but it starts in its own folder, fills the caches of package managers, and may use what its entry
    names: files are seen, folders are written. Repositories are read, unless the entry names them: what a server leaves in one
    would run outside."""
    folder = os.path.realpath(address.cwd or ".")
    named = [os.path.join(folder, word) for word in (address.command, *address.args) if word]  # noqa: PTH118
    files = [path for path in named if os.path.isfile(path)]  # noqa: PTH113
    folders = [path for path in (*named, address.cwd or "") if os.path.isdir(path)]  # noqa: PTH112
    around = [os.path.dirname(path) for path in files if "/" in path]  # noqa: PTH120
    more = Grant((*folders, *server.paths), (*files, *around, folder))
    policy = sandbox.policy(more=more, caches=True)
    kept = repositories((str(sandbox.workspace), folder), server.paths)
    return structs.replace(policy, folder=folder, hosts=server.hosts, protected=(*policy.protected, *kept))


async def _receive(reader: asyncio.StreamReader, received: Any) -> None:
    import anyio  # noqa: PLC0415

    async with received:
        # The end of the output or a line beyond the limit: the session sees that the server is gone.
        with suppress(
            asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, anyio.BrokenResourceError
        ):
            while True:
                await received.send(_message(await reader.readuntil(b"\n")))


def _message(line: bytes) -> Any:
    """A message, or why the line is none, which the session passes over."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - heavy, and loaded by now
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _send(to_send: Any, child: ChildProcess, received: Any, done: asyncio.Event) -> None:
    stdin = child.process.stdin
    assert stdin is not None  # noqa: S101 - it is a pipe
    try:
        async with to_send:
            async for sent in to_send:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
    except (ConnectionError, RuntimeError):
        received.close()  # nobody reads any more: a request must not wait for its answer
    finally:
        done.set()


async def _stop(child: ChildProcess) -> None:
    """End its input, wait, ask it to end, wait, and kill what is left of its group."""
    process = child.process
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(OSError, RuntimeError):
        process.stdin.close()
    for number in (signal.SIGTERM, None):
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            break
        if number is not None:
            child.signal(number)
    child.end()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)


class StderrTail:
    """A pipe to hand to a child, whose end is always read so that the child never waits for it."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._transport: asyncio.ReadTransport | None = None
        self._reading: asyncio.Future[None] | None = None

    async def open(self) -> TextIO:
        """What the child writes to. Close it once the child has it."""
        ours, theirs = os.pipe()
        reader, self._transport = await read_pipe(ours)
        self._reading = asyncio.ensure_future(self._read(reader))
        return os.fdopen(theirs, "w")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while portion := await reader.read(65_536):
            self._kept += portion
            del self._kept[:-_MAX_KEPT]

    async def settle(self) -> None:
        """Wait a moment for output that is still on its way."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=0.3)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._reading is not None:
            self._reading.cancel()

    def text(self, secrets: Iterable[str] = ()) -> str:
        """The last lines, without the secrets that the child was given or that are known."""
        text = self._kept.decode(errors="replace").strip()
        return str(redact_known(redact_values(text, secrets)))[-_MAX_SHOWN:]
