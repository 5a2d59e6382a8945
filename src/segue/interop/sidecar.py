"""What a moved session leaves behind: the file that it came from, byte for byte, so that the way back loses nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.errors import UsageError
from segue.system.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


@final
class Sidecar(Struct, frozen=True, kw_only=True):
    """One move, kept under the id of the session that was written."""

    program: str
    """The program that it was written for."""
    written: str
    """What was written, whole."""
    source_program: str
    """Where it came from."""
    source_id: str
    source: str
    """The file that it came from, whole."""
    version: int = 1


class Sidecars:
    """Private files in a folder of ours, one for each session that was written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, session_id: str, sidecar: Sidecar) -> None:
        if _ID.fullmatch(session_id) is None:
            raise UsageError(f"{session_id!r} is no id of a session.", code="bad_id")
        write_private(self._file(session_id), msgspec.json.encode(sidecar).decode())

    def find(self, session_id: str) -> Sidecar | None:
        """None if there is none, or it cannot be read."""
        if _ID.fullmatch(session_id) is None:  # what a file names is no path of ours
            return None
        file = self._file(session_id)
        if file.is_symlink():
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=Sidecar)
        except (OSError, ValueError):
            return None

    def _file(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.json"
