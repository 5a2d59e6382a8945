"""The prompts of a one-shot: the words of the command line, piped input, or one JSON message per line of stdin."""

from __future__ import annotations

import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.chat.attachments import of_bytes
from segue.cli.attachments import read_attachment, with_attachments
from segue.cli.display.terminal import print_status
from segue.cli.flag_values import variables_of
from segue.conversation.blocks import Text
from segue.errors import UsageError
from segue.tools.media_types import mime_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segue.config.templates import Template
    from segue.conversation.blocks import Block

HINT_SECONDS: Final = 3.0
"""After this time a user whose stdin is open by mistake learns what is read."""


def read_prompts(
    arguments: argparse.Namespace, template: Template | None = None
) -> Iterator[tuple[Block, ...]]:
    """One prompt with its attachments, or one for each line of stdin."""
    if arguments.input_format == "stream-json":
        for text in _messages():
            yield (Text(text),)
    else:
        yield _prompt(arguments, template)


def _prompt(arguments: argparse.Namespace, template: Template | None) -> tuple[Block, ...]:
    words = [*arguments.words, *([arguments.prompt] if arguments.prompt else [])]
    stdin = cache(_read_stdin)
    attached = [read_attachment(source, stdin) for source in arguments.attachments]
    # Only what was typed mentions files: piped text is not the user's own.
    typed = " ".join(words)
    mentioned = with_attachments(typed, Path.cwd())[1:] if "@" in typed else ()
    content = b"" if "-" in arguments.attachments else stdin()
    piped = _piped(content, attached) if content else ""
    if "-" in words:
        prompt = " ".join(piped.strip() if word == "-" else word for word in words)
    elif words and piped.strip():
        prompt = f"{typed}\n\n<stdin>\n{piped.strip()}\n</stdin>"
    else:
        prompt = typed or piped
    if template is not None:
        prompt = template.fill(prompt, variables_of(arguments))
    if not prompt.strip() and not attached:
        raise UsageError(
            "The prompt is empty.", code="no_prompt", hint='Write a prompt: segue "…", or pipe one in.'
        )
    return (*((Text(prompt),) if prompt.strip() else ()), *attached, *mentioned)


def _piped(content: bytes, attached: list[Block]) -> str:
    """Piped text. Media is attached instead, and anything else is refused, since no model can read it."""
    if mime_of(content):
        attached.append(of_bytes(content, name="stdin"))
        return ""
    text = content.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        of_bytes(content, name="stdin")  # raises why it cannot be sent
    return text


def _read_stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    hint = threading.Timer(
        HINT_SECONDS, print_status, ["Reading stdin to its end. If nothing is piped in, add: </dev/null"]
    )
    hint.daemon = True
    hint.start()
    try:
        return sys.stdin.buffer.read()
    finally:
        hint.cancel()


def _messages() -> Iterator[str]:
    """`{"type": "user", "message": {"role": "user", "content": "…"}}`, or `{"role": "user", "content": "…"}` per line."""
    empty = True
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        if line.strip():
            empty = False
            yield _text(_message(line, number), number)
    if empty:
        raise UsageError("stdin is empty.", code="no_prompt", hint="Send one JSON object per line.")


def _message(line: bytes, number: int) -> Any:
    try:
        message: Any = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise _bad(number, f"is not JSON: {error}") from error
    if isinstance(message, dict) and isinstance(message.get("message"), dict):
        message = message["message"]
    if not isinstance(message, dict) or message.get("role", "user") != "user" or "content" not in message:
        raise _bad(number, "is not a user message")
    return message["content"]


def _text(content: Any, number: int) -> str:
    if isinstance(content, list):
        parts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "\n".join(parts) if all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str) or not content.strip():
        raise _bad(number, "has no text")
    return content


def _bad(number: int, what: str) -> UsageError:
    return UsageError(
        f"Line {number} of stdin {what}.",
        code="bad_input",
        hint='--input-format stream-json reads lines like {"role": "user", "content": "…"}',
    )
