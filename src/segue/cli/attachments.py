"""Attachments of a prompt: `-a FILE|URL|-`, and every `@file` that a prompt mentions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segue.chat.attachments import LARGEST, is_url, of_bytes, of_file
from segue.conversation.blocks import Text
from segue.errors import TransportError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.chat.chat import Chat
    from segue.conversation.blocks import Block

FETCH_SECONDS: Final = 30.0
_MENTION: Final = re.compile(r'(?<!\S)@(?:"([^"]+)"|(\S+))')


def with_attachments(prompt: str, directory: Path) -> tuple[Block, ...]:
    """The prompt, followed by every file it mentions. A mention of no file stays plain text."""
    blocks: list[Block] = [Text(prompt)]
    for quoted, bare in _MENTION.findall(prompt):
        path = _existing(quoted or bare, directory)
        if path is not None:
            blocks.append(of_file(path, name=quoted or bare))
    return tuple(blocks)


def _existing(name: str, directory: Path) -> Path | None:
    """The file, also if punctuation of the sentence follows it."""
    for candidate in (name, name.rstrip(".,;:!?)")):
        path = directory / Path(candidate).expanduser()
        if candidate and path.is_file():
            return path
    return None


def read_attachment(source: str, stdin: Callable[[], bytes]) -> Block:
    """What `-a` names: a file, an address, or `-` for stdin. Raises UsageError for what cannot be attached."""
    if source == "-":
        return of_bytes(stdin(), name="stdin")
    if is_url(source):
        return _fetched(source)
    return of_file(Path(source).expanduser(), name=source)


def _fetched(url: str) -> Block:
    """Fetched here, so that every provider can take it and an address of this machine works too."""
    from urllib.error import HTTPError, URLError  # noqa: PLC0415 - slow to load, and seldom needed
    from urllib.request import Request, urlopen  # noqa: PLC0415

    try:
        with urlopen(Request(url, headers={"User-Agent": "segue"}), timeout=FETCH_SECONDS) as answer:  # noqa: S310 - http only
            content: bytes = answer.read(LARGEST + 1)
            mime: str = answer.headers.get_content_type()
    except HTTPError as error:
        error.close()
        raise UsageError(
            f"{url} cannot be attached: HTTP {error.code}.",
            code="attachment_missing",
            hint="Check the address.",
        ) from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise TransportError(
            f"{url} cannot be fetched: {reason}.",
            code="attachment_missing",
            hint="Check the address, or attach a file instead.",
        ) from error
    media = mime if mime.startswith(("image/", "audio/")) or mime == "application/pdf" else ""
    return of_bytes(content, name=url, mime=media)


def check_media(chat: Chat, content: tuple[Block, ...]) -> None:
    """Raise UsageError where no model that may answer can take what is attached; nothing has been sent yet."""
    refusals = [chat.unseen(*content, model=route.name) for route in chat.router.routes]
    if refusals and all(refusals):
        names = ", ".join(block.name or block.kind for block in refusals[0])
        raise UsageError(
            f"{chat.model} cannot take {names}.",
            code="attachment_refused",
            hint="Use a model that can: -m provider/model. Or attach the text of it.",
        )
