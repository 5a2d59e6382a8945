"""The end of what a child process wrote to its standard error, to report when it fails."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, TextIO

from segue.redaction import redact_known, redact_values

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_KEPT: Final = 4_000
MAX_SHOWN: Final = 1_000


class StderrTail:
    """A pipe to hand to a child, whose end is always read so that the child never waits for it."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._transport: asyncio.ReadTransport | None = None
        self._reading: asyncio.Future[None] | None = None

    async def open(self) -> TextIO:
        """What the child writes to. Close it once the child has it."""
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
        )
        self._reading = asyncio.ensure_future(self._read(reader))
        return os.fdopen(theirs, "w")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while portion := await reader.read(65_536):
            self._kept += portion
            del self._kept[:-MAX_KEPT]

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
        return str(redact_known(redact_values(text, secrets)))[-MAX_SHOWN:]
