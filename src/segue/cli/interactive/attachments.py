"""`@file` in a prompt attaches the file: media as media, anything else as text."""

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
"""Bytes. No provider accepts more."""
_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"]+)"|(\S+))')


def with_attachments(prompt: str, directory: Path) -> tuple[Block, ...]:
    """The prompt, followed by every file it mentions. A mention of no file stays plain text."""
    blocks: list[Block] = [Text(prompt)]
    for quoted, bare in _MENTION.findall(prompt):
        path = _existing(quoted or bare, directory)
        if path is not None:
            blocks.append(_attached(path, quoted or bare))
    return tuple(blocks)


def _existing(name: str, directory: Path) -> Path | None:
    """The file, also if punctuation of the sentence follows it."""
    for candidate in (name, name.rstrip(".,;:!?)")):
        path = directory / Path(candidate).expanduser()
        if candidate and path.is_file():
            return path
    return None


def _attached(path: Path, name: str) -> Block:
    size = path.stat().st_size
    if size > LARGEST:
        raise UsageError(
            f"{name} is too large to attach: {size / 1e6:.0f} MB.",
            code="attachment_too_large",
            hint=f"The limit is {LARGEST / 1e6:.0f} MB. Attach a part of it, or give the model a tool to read it.",
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
            f"{name} is not text, an image, a PDF or audio.",
            code="attachment_unreadable",
            hint="Convert it first, or remove the @.",
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
