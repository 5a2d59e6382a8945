"""What MCP servers offer, kept on disk: whoever calls none of their tools need not start them.

A list is found by the configuration of its server, with the programs and files that its command names. It holds for a day,
and whenever the server is started and reports another version it is read anew.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.system.private_files import write_private
from segue.text.redaction import redact_known
from segue.tools.mcp.config import StdioAddress

if TYPE_CHECKING:
    from segue.tools.mcp.config import ServerConfig

MAX_AGE: Final = 24 * 3600.0
"""Seconds: a server at an address may get new tools at any time."""
MAX_BYTES: Final = 4_000_000


@final
class McpTool(Struct, frozen=True, kw_only=True):
    """One tool as its server describes it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    read_only: bool = False


@final
class ToolList(Struct, frozen=True, kw_only=True):
    """All tools of a server at one moment."""

    tools: tuple[McpTool, ...]
    version: str = ""
    """Name and version of the server, as it reports them."""
    at: float = 0.0


@final
class ToolListCache:
    """A folder with one file per server. What cannot be read or written is as if it were not there."""

    def __init__(self, folder: Path | None) -> None:
        """None keeps nothing."""
        self._folder = folder

    def read(self, server: ServerConfig) -> ToolList | None:
        """None if there is no list that still holds."""
        if self._folder is None:
            return None
        try:
            data = self._file(self._folder, server).read_bytes()
            found = msgspec.json.decode(data, type=ToolList) if len(data) <= MAX_BYTES else None
        except (OSError, ValueError):
            return None
        return found if found is not None and 0 <= time.time() - found.at < MAX_AGE else None

    def write(self, server: ServerConfig, found: ToolList) -> None:
        if self._folder is None:
            return
        try:
            # A server may repeat what it was given.
            text = msgspec.json.encode(redact_known(msgspec.json.decode(msgspec.json.encode(found)))).decode()
            if len(text) <= MAX_BYTES:
                write_private(self._file(self._folder, server), text)
        except (OSError, ValueError):
            return

    def forget(self, server: ServerConfig) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._file(self._folder, server).unlink(missing_ok=True)

    def _file(self, folder: Path, server: ServerConfig) -> Path:
        parts = msgspec.json.encode([server.name, server.address, _programs(server)], order="sorted")
        # Slow on purpose: the configuration may hold secrets, and the name of the file must not help to guess them.
        digest = hashlib.scrypt(parts, salt=b"segue mcp tools", n=2**11, r=8, p=1, dklen=20)
        return folder / f"{digest.hex()}.json"


def _programs(server: ServerConfig) -> list[tuple[str, int, int]]:
    """Size and time of the program and of the files among its arguments: a new one may have other tools."""
    address = server.address
    if not isinstance(address, StdioAddress):
        return []
    start = Path(address.cwd or ".")
    found: list[tuple[str, int, int]] = []
    for place in (shutil.which(address.command) or address.command, *address.args):
        try:
            state = (start / place).stat()
        except (OSError, ValueError):
            continue
        found.append((place, state.st_size, state.st_mtime_ns))
    return found
