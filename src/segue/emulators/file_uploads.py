"""Files that clients upload and download: the form that they come in, and where they are kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.emulators.emulator import account_of

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.http import Request

_BOUNDARY = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)
_FIELD = re.compile(r'[;\s]name="([^"]*)"', re.IGNORECASE)
_FILENAME = re.compile(r'filename="([^"]*)"', re.IGNORECASE)


class Field(Struct, frozen=True):
    """One field of a form; `filename` is None for a plain value."""

    value: bytes
    filename: str | None = None


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file of an account."""

    id: str
    account: str
    name: str
    purpose: str
    content: bytes
    created: int


def form_of(request: Request) -> dict[str, Field] | None:
    """The fields of a `multipart/form-data` body; None if it is something else."""
    kind = request.headers.get("content-type", "")
    boundary = _BOUNDARY.search(kind)
    if not kind.lower().startswith("multipart/form-data") or boundary is None:
        return None
    fields: dict[str, Field] = {}
    for part in request.body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        words = head.decode("utf-8", "replace")
        name, filename = _FIELD.search(words), _FILENAME.search(words)
        if name is not None:
            fields[name[1]] = Field(value.removesuffix(b"\r\n"), filename[1] if filename else None)
    return fields


def store(file: StoredFile, emulator: Emulator, provider: str) -> None:
    emulator.memory(provider).setdefault("files", {})[file.id] = file


def files_of(request: Request, emulator: Emulator, provider: str) -> list[StoredFile]:
    """Those of the account, the newest first."""
    held: dict[str, StoredFile] = emulator.memory(provider).get("files", {})
    return [file for file in reversed([*held.values()]) if file.account == account_of(request)]


def find(name: str, request: Request, emulator: Emulator, provider: str) -> StoredFile | None:
    return next((file for file in files_of(request, emulator, provider) if file.id == name), None)


def remove(file: StoredFile, emulator: Emulator, provider: str) -> None:
    del emulator.memory(provider)["files"][file.id]
