"""Programs that we start: without our keys, in a process group of their own, and never longer than ourselves.

Beside each program a watchdog waits for the end of a pipe that only this process holds open. The end comes with the
death of this process, however it dies; then the whole group is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

from segue.redaction import redact_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELL: Final = "/bin/sh"
_WATCHED: Final = """number=$1; shift
{ exec 3<"/dev/fd/$number" || exit; read -r _ <&3; kill -9 0; } >/dev/null 2>&1 &
unset PWD OLDPWD SHLVL
exec "$@"
"""
"""Without /dev/fd there is no watchdog, rather than one that kills at once. What runs in the background reads no input."""


def child_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without keys that are known by name, by setting or by value, and without places on the search path
    that depend on the current folder: a program there would run in the place of the one that was meant."""
    kept = redact_environment(os.environ if environment is None else environment)
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(filter(os.path.isabs, kept["PATH"].split(os.pathsep)))
    return kept


@final
class ChildProcess:
    """A running program, and the pipes that its output comes from and that its watchdog waits at."""

    def __init__(self, process: asyncio.subprocess.Process, output: int, alive: int) -> None:
        self.process = process
        self.output = output
        """Whoever started the program reads and closes it."""
        self._alive = alive

    @classmethod
    async def start(cls, command: Sequence[str], **streams: Any) -> ChildProcess:
        """Start a program; `streams` and the rest are those of asyncio. Raises OSError if there is no such program."""
        watched, alive = os.pipe()
        # Not asyncio's own pipe: with that, waiting for a process waits for whoever inherited its output, too.
        output, written = os.pipe()
        words = (SHELL, "-c", _WATCHED, "sh", str(watched), *command)
        try:
            process = await _started(words, watched, {**streams, "stdout": written})
        except BaseException:
            os.close(alive)
            os.close(output)
            raise
        finally:
            os.close(watched)
            os.close(written)
        return cls(process, output, alive)

    def signal(self, number: signal.Signals) -> None:
        """To the whole group."""
        _signal_group(self.process.pid, number)

    def end(self) -> None:
        """Kill whatever is left of the group. The process itself is to be waited for."""
        self.signal(signal.SIGKILL)
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1


async def _started(
    command: Sequence[str], watched: int, streams: dict[str, Any]
) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*command, pass_fds=(watched,), start_new_session=True, **streams)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # By now it may run, and have started others: asyncio alone would end only the first of them.
        await asyncio.wait([starting])
        if starting.exception() is None:
            _signal_group(starting.result().pid, signal.SIGKILL)
            await starting.result().wait()
        raise


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def read_pipe(
    descriptor: int, *, limit: int = 65_536
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """The reading end of a pipe. Closing the transport closes it; `limit`: bytes that one line may have."""
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport
