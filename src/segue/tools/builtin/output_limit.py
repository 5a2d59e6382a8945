"""Long output for a model: its beginning and its end, with the whole kept on disk."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, BinaryIO, Final

from segue.conversation.json_safe import encodable

if TYPE_CHECKING:
    from pathlib import Path

    from segue.tools.definition import Context

MAX_CHARACTERS: Final = 30_000
MAX_KEPT: Final = 50_000_000
"""Bytes of one output that are kept on disk."""


class OutputLimit:
    """How much of an output a model gets, and the directory for the rest, made when the first one comes."""

    def __init__(self, directory: Path | None = None, limit: int = MAX_CHARACTERS) -> None:
        self._directory = None if directory is None else directory.resolve()
        self.limit = limit

    @property
    def directory(self) -> Path:
        if self._directory is None:
            import platformdirs  # noqa: PLC0415 - only long outputs need a place

            self._directory = (platformdirs.user_data_path("segue") / "outputs").resolve()
        return self._directory

    def fit(self, text: str, context: Context) -> str:
        """The text if it is short; else its two ends, and where all of it is."""
        if len(text) <= self.limit:
            return text
        path, file = self.open_file(context)
        with file:
            file.write(encodable(text).encode()[:MAX_KEPT])
        half = self.limit // 2
        return f"{text[:half]}{omission_note(len(text) - 2 * half, path)}{text[-half:]}"

    def open_file(self, context: Context) -> tuple[Path, BinaryIO]:
        """A new file for the output of a call, for nobody else to read."""
        folder = self.directory / _file_name(context.session or "session")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stem = _file_name(context.call.id or "call")
        for number in range(1_000):
            path = folder / (f"{stem}-{number}.txt" if number else f"{stem}.txt")
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            return path, open(descriptor, "wb")  # noqa: PTH123 - an open descriptor
        raise FileExistsError(f"{folder} holds too many outputs of one call")


def omission_note(characters: int, path: Path) -> str:
    """What stands in the middle of a cropped text."""
    return f"\n\n[… {characters} characters omitted; all of it is in {path}, which read_file can read …]\n\n"


def _file_name(text: str) -> str:
    return re.sub(r"[^\w-]", "_", text, flags=re.ASCII)[:80]
