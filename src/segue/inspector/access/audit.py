"""What people did on the pages, and whose content they looked at: kept in memory, and in a file where the gateway has a folder."""

from __future__ import annotations

import logging
from collections import deque
from time import time
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.system.private_files import append_private

if TYPE_CHECKING:
    from pathlib import Path

_MOST: Final = 1000
_LOG: Final = logging.getLogger("segue.inspector")


@final
class AuditEntry(Struct, frozen=True, omit_defaults=True):
    """One thing that somebody did."""

    at: float
    who: str
    did: str
    what: str = ""


@final
class AuditLog:
    """The last thousand entries; all of them in the file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.entries: deque[AuditEntry] = deque(self._read(), maxlen=_MOST)

    def note(self, who: str, did: str, what: str = "") -> None:
        entry = AuditEntry(time(), who, did, what)
        self.entries.append(entry)
        if self._file is None:
            return
        try:
            append_private(self._file, msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            _LOG.error("The audit log cannot be written: %s", error)

    def last(self, did: str, start: str) -> AuditEntry | None:
        """The newest entry of this kind whose subject begins so."""
        return next(
            (one for one in reversed(self.entries) if one.did == did and one.what.startswith(start)), None
        )

    def _read(self) -> list[AuditEntry]:
        if self._file is None or not self._file.exists():
            return []
        try:
            lines = self._file.read_bytes().splitlines()[-_MOST:]
            return [msgspec.json.decode(line, type=AuditEntry) for line in lines if line]
        except (OSError, msgspec.DecodeError):
            return []
