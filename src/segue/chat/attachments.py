"""What a user sends: texts, and files, bytes and addresses as attachments. Media is sent as media, anything else as text."""

from __future__ import annotations

from base64 import b64encode
from mimetypes import guess_type
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from segue.conversation.blocks import Block, Media, Text
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message
from segue.errors import UsageError
from segue.tools.media_types import media_kind, mime_of

LARGEST: Final = 20_000_000
"""Bytes. No provider accepts more."""

Content: TypeAlias = str | Path | bytes | Block
"""A text, a file by its path, the content of one, or a block."""


def user_message(content: tuple[Content, ...]) -> Message:
    """The message of a turn. Raises UsageError where there is nothing to send, or a file cannot be attached."""
    blocks = [_block(part) for part in content]
    if not any(type(block) is not Text or block.text.strip() for block in blocks):
        raise UsageError(
            "The message is empty.", code="empty_prompt", hint="Give a text, an image or a document."
        )
    return Message("user", tuple(blocks))


def _block(part: Content) -> Block:
    if isinstance(part, str):
        return Text(encodable(part))
    if isinstance(part, (Path, bytes)):
        return attachment(part)
    if not isinstance(part, Block):
        raise UsageError(
            f"{type(part).__name__} cannot be sent: {part!r:.100}.",
            code="bad_content",
            hint="Give texts, paths, bytes and blocks, one after another: send(text, path). "
            "Earlier messages are the history of a chat: Chat(history=…).",
        )
    return part


def attachment(source: str | Path | bytes, *, name: str = "", mime: str = "") -> Block:
    """A block for `send`: of a path, of bytes, or of an address, which the provider fetches.

    `name`: what the model reads; by default the name of the file. `mime`: needed if neither name nor content show it. Raises
    Raises UsageError for a file that is missing, too large, or neither text nor media.
    """
    if isinstance(source, bytes):
        return of_bytes(source, name=name, mime=mime)
    if isinstance(source, str) and is_url(source):
        return _of_url(source, name, mime)
    return of_file(Path(source), name=name, mime=mime)


def is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def of_file(path: Path, *, name: str = "", mime: str = "") -> Block:
    shown = name or str(path)
    try:
        size = path.stat().st_size
        _check_size(size, shown)
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be attached: {error.strerror or error}.",
            code="attachment_missing",
            hint="Give the path of a file that you can read.",
        ) from error
    return of_bytes(content, name=shown, mime=mime)


def of_bytes(content: bytes, *, name: str = "", mime: str = "") -> Block:
    """Media by its first bytes or its name; else text, in a frame that names the file."""
    shown = name or "the attachment"
    _check_size(len(content), shown)
    known = mime or mime_of(content) or guess_type(name)[0] or ""
    kind = media_kind(known)
    if kind is not None:
        return Media(kind, known, b64encode(content).decode(), name=Path(name).name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(
            f"{shown} is not text, an image, a PDF or audio.",
            code="attachment_unreadable",
            hint="Convert it first, or do not attach it.",
        )
    return Text(f'<file path="{name}">\n{text}\n</file>' if name else text)


def _of_url(url: str, name: str, mime: str) -> Block:
    path = urlsplit(url).path
    known = mime or guess_type(path)[0] or ""
    kind = media_kind(known)
    if kind is None:
        raise UsageError(
            f"{url} does not end like an image, a PDF or a sound.",
            code="attachment_unreadable",
            hint='Name its type: mime="image/png". Or fetch it and attach the content.',
        )
    return Media(kind, known, url=url, name=name or Path(path).name)


def _check_size(size: int, name: str) -> None:
    if size > LARGEST:
        raise UsageError(
            f"{name} is too large to attach: {size / 1e6:.0f} MB.",
            code="attachment_too_large",
            hint=f"The limit is {LARGEST / 1e6:.0f} MB. Attach a part of it, or give the model a tool to read it.",
        )
