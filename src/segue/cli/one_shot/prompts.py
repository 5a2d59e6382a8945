"""The prompt of a one-shot: the words of the command line, and what was piped in."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.cli.display.terminal import print_status
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

PATIENCE: Final = 3.0
"""Seconds after which somebody who forgot that stdin is open is told what we wait for."""


def has_prompt(arguments: argparse.Namespace) -> bool:
    return bool(arguments.words or arguments.prompt) or arguments.input_format == "stream-json"


def prompts(arguments: argparse.Namespace) -> Iterator[str]:
    """What to ask, one after another: one prompt, or one for each line of stdin."""
    if arguments.input_format == "stream-json":
        yield from _messages()
    else:
        yield _prompt(arguments)


def _prompt(arguments: argparse.Namespace) -> str:
    words = [*arguments.words, *([arguments.prompt] if arguments.prompt else [])]
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _read_stdin()
    if "-" in words:
        prompt = " ".join(piped.strip() if word == "-" else word for word in words)
    elif words and piped.strip():
        prompt = f"{' '.join(words)}\n\n<stdin>\n{piped.strip()}\n</stdin>"
    else:
        prompt = " ".join(words) or piped
    if not prompt.strip():
        raise UsageError(
            "There is nothing to ask.", code="no_prompt", hint='Write a prompt: segue "…", or pipe one in.'
        )
    return prompt


def _read_stdin() -> str:
    hint = threading.Timer(
        PATIENCE, print_status, ["Reading stdin to its end; </dev/null if nothing is coming."]
    )
    hint.daemon = True
    hint.start()
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    finally:
        hint.cancel()


def _messages() -> Iterator[str]:
    """`{"type": "user", "message": {"role": "user", "content": "…"}}`, or `{"role": "user", "content": "…"}` per line."""
    asked = False
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        if line.strip():
            asked = True
            yield _text(_message(line, number), number)
    if not asked:
        raise UsageError("Nothing came on stdin.", code="no_prompt", hint="Send one JSON object per line.")


def _message(line: bytes, number: int) -> Any:
    try:
        told: Any = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise _bad(number, f"is no JSON: {error}") from error
    if isinstance(told, dict) and isinstance(told.get("message"), dict):
        told = told["message"]
    if not isinstance(told, dict) or told.get("role", "user") != "user" or "content" not in told:
        raise _bad(number, "is no message of a user")
    return told["content"]


def _text(content: Any, number: int) -> str:
    if isinstance(content, list):
        parts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "\n".join(parts) if all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str) or not content.strip():
        raise _bad(number, "holds no text")
    return content


def _bad(number: int, what: str) -> UsageError:
    return UsageError(
        f"Line {number} of stdin {what}.",
        code="bad_input",
        hint='--input-format stream-json takes lines like {"role": "user", "content": "…"}',
    )
