"""Files that only their owner may read: written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Replace the file at once; nobody else can read it at any moment, and a crash leaves the old one."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as draft:
            draft.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def replace_file(file: Path, data: bytes) -> None:
    """Write the file whole or not at all, with the mode that it had; a new one is its owner's alone."""
    target = file.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(data)
            draft.flush()
            os.fsync(draft.fileno())
        if target.exists():
            shutil.copymode(target, name)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def create_private(file: Path, text: str) -> str:
    """What the file holds: this text if it was not there. Of several that create it at once, one is the first."""
    if not file.exists():
        with suppress(FileExistsError):
            create_new(file, text.encode())
    return file.read_text("utf-8")


def create_new(file: Path, data: bytes) -> None:
    """Write a file that is not there yet, whole or not at all. Raises FileExistsError if something has its name, be it a link
    that leads nowhere."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(data)
            draft.flush()
            os.fsync(draft.fileno())
        os.link(name, file)
    finally:
        Path(name).unlink(missing_ok=True)


def append_private(file: Path, data: bytes) -> None:
    """Add to the end of a file; a new one is its owner's alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
