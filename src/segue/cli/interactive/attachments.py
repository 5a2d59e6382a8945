"""`@file` in a prompt: the file comes with it, an image as an image and anything else as text."""

from __future__ import annotations

import re
from base64 import b64encode
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Media, Text
from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, MediaKind

LARGEST: Final = 20_000_000
"""Bytes. More than this no provider takes."""
_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"]+)"|(\S+))')


def with_attachments(prompt: str, directory: Path) -> tuple[Block, ...]:
    """The prompt, and behind it every file it mentions. What names no file is left as it was typed."""
    blocks: list[Block] = [Text(prompt)]
    for quoted, bare in _MENTION.findall(prompt):
        path = _existing(quoted or bare, directory)
        if path is not None:
            blocks.append(_attached(path, quoted or bare))
    return tuple(blocks)


def _existing(name: str, directory: Path) -> Path | None:
    """The file that is meant, also when a comma or full stop of the sentence stands behind it."""
    for candidate in (name, name.rstrip(".,;:!?)")):
        path = directory / Path(candidate).expanduser()
        if candidate and path.is_file():
            return path
    return None


def _attached(path: Path, name: str) -> Block:
    size = path.stat().st_size
    if size > LARGEST:
        raise UsageError(
            f"{name} has {size / 1e6:.0f} MB: too much to send along.",
            code="attachment_too_large",
            hint=f"The limit is {LARGEST / 1e6:.0f} MB. Give the model a part of it, or a tool to read it.",
        )
    content = path.read_bytes()
    mime = guess_type(path.name)[0] or ""
    kind = _media_kind(mime)
    if kind is not None:
        return Media(kind, mime, b64encode(content).decode(), name=path.name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"{name} is neither text nor an image, a PDF or a sound.",
            code="attachment_unreadable",
            hint="Convert it first, or leave out the @.",
        ) from None
    return Text(f'<file path="{name}">\n{text}\n</file>')


def _media_kind(mime: str) -> MediaKind | None:
    if mime == "image/svg+xml":
        return None
    if mime.startswith("image/"):
        return "image"
    if mime.startswith("audio/"):
        return "audio"
    return "document" if mime == "application/pdf" else None
