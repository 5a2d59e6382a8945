"""Reading the files that people have: request bodies of every dialect, documents of ours, and session files.

A session file is brought into the request that its program would send next. Lines that are no part of the
conversation (titles, snapshots, events for the screen) are dropped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.conversation.blocks import PREFIX_UNKNOWN, Reasoning, Text, ToolCall
from segue.conversation.json_text import read_json
from segue.errors import TranscriptError
from segue.interop.added_formats import read_added
from segue.interop.agents.claude_code import read_claude_code
from segue.interop.agents.cline import read_cline
from segue.interop.agents.codex import read_codex
from segue.interop.agents.continue_dev import read_continue
from segue.interop.agents.copilot import read_copilot
from segue.interop.agents.gemini_cli import read_gemini_cli
from segue.interop.agents.llm import DATABASE, read_llm_database, read_llm_logs
from segue.interop.agents.opencode import read_opencode
from segue.interop.agents.pi import read_pi
from segue.interop.agents.qwen_code import read_qwen_code
from segue.interop.source import AUTO, SourceRequest, read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.conversation.blocks import Block, Origin, Seal
    from segue.conversation.message import Message
    from segue.interop.agents.session_file import Row, SessionFile

KNOWN: Final = (
    "sessions of Claude Code, Codex, Gemini CLI, Qwen Code, pi, Copilot CLI, Cline and Continue, "
    "opencode exports, and logs of llm"
)
_LINE_READERS: Final[tuple[Callable[[list[Row]], SessionFile | None], ...]] = (
    read_qwen_code,
    read_claude_code,
    read_codex,
    read_gemini_cli,
    read_pi,
    read_copilot,
)
_DOCUMENT_READERS: Final[tuple[Callable[[object], SessionFile | None], ...]] = (
    read_llm_logs,
    read_opencode,
    read_cline,
    read_continue,
)


def read_file(
    data: bytes, dialect: str = AUTO, *, model: str = "", to: str = ""
) -> tuple[SourceRequest, tuple[int, ...]]:
    """What a file holds, and the lines its messages stand in where it is a session file."""
    try:
        session = read_session_file(data) if dialect == AUTO else None
    except TranscriptError:
        if (added := read_added(data)) is not None:
            return added, ()
        raise
    lines = session.lines if session is not None else ()
    try:
        if session is None:
            added = read_added(data) if dialect == AUTO else None
            return added or read_request(read_json(data), dialect, model=model, to=to), ()
        source = read_request(session.body, session.dialect, model=model, to=to)
    except TranscriptError as error:
        error.path = _place(error.path, lines)
        error.hint = error.hint or "Correct this place in the file, or remove it."
        raise
    messages = with_writers(source, session.models)
    return structs.replace(source, form=session.form, session=True, messages=messages), lines


def read_session_file(data: bytes) -> SessionFile | None:
    """The session in a file; None if it is not a session file of a known program."""
    if data.startswith(DATABASE):
        return read_llm_database(data)
    rows = _rows(data)
    for read in _LINE_READERS if rows else ():
        if (session := read(rows)) is not None:
            return session
    if len(rows) > 1:
        raise TranscriptError(
            f"JSON lines of an unknown kind; known are {KNOWN}.",
            code="unknown_lines",
            path=f"line {rows[0][0]}",
            hint="A request is one JSON value; many are converted with: segue convert --jsonl",
        )
    try:
        document = rows[0][1] if rows else read_json(data)
    except TranscriptError:
        return None
    for read_whole in _DOCUMENT_READERS:
        if (session := read_whole(document)) is not None:
            return session
    return read_gemini_cli([(1, document)]) if isinstance(document, dict) else None


def _rows(data: bytes) -> list[Row]:
    """The objects in a file of lines; empty if it is not one. Only the last line may be cut off."""
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    rows: list[Row] = []
    for position, (number, line) in enumerate(lines):
        try:
            parsed = read_json(line)
        except TranscriptError:
            if position == 0 or position < len(lines) - 1:
                return []
            continue
        if not isinstance(parsed, dict):
            return []
        rows.append((number, parsed))
    return rows


_PATH: Final = re.compile(r"\w+\[(\d+)\]")


def _place(path: str, lines: tuple[int, ...]) -> str:
    """A path into the request, with the line of the file where it has lines."""
    at = _PATH.match(path)
    return f"line {lines[int(at[1])]}, {path}" if at and int(at[1]) < len(lines) else path


_MOST_RUNS = 64
"""Finding where a run of one model's messages ends costs a decoding; beyond this many, no model is taken as known."""


def with_writers(source: SourceRequest, models: Sequence[str | None]) -> tuple[Message, ...]:
    """The messages by the model that the file names for each, with seals made under a prefix that nobody knows."""
    runs = _runs(models)
    if not runs:
        return with_unknown_prefix(source.messages)
    if len(runs) > _MOST_RUNS:
        runs = [(0, "")]
    ends = [*(source.decoded_count(start) for start, _ in runs[1:]), len(source.messages)]
    written: list[Message] = []
    for (_, model), end in zip(runs, ends, strict=True):
        written += [_written(message, model) for message in source.messages[len(written) : end]]
    return tuple(written)


def with_unknown_prefix(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages for another system prompt and other tools than their seals were made under."""
    return tuple(_written(message, None) for message in messages)


def _runs(models: Sequence[str | None]) -> list[tuple[int, str]]:
    """Where each run of one model's messages begins."""
    runs: list[tuple[int, str]] = []
    for at, model in enumerate(models):
        if model is not None and (not runs or runs[-1][1] != model):
            runs.append((at if runs else 0, model))
    return runs


def _written(message: Message, model: str | None) -> Message:
    """`model`: None to leave it as it is."""
    if message.origin is None:
        return message
    origin = message.origin if model is None else structs.replace(message.origin, model=model)
    blocks = tuple(_resealed(block, message.origin, origin) for block in message.blocks)
    return structs.replace(message, origin=origin, blocks=blocks)


def _resealed(block: Block, before: Origin, origin: Origin) -> Block:
    if not isinstance(block, Text | Reasoning | ToolCall) or block.seal is None:
        return block
    return structs.replace(block, seal=_seal(block.seal, before, origin))


def _seal(seal: Seal, before: Origin, origin: Origin) -> Seal:
    maker = origin if seal.origin == before else seal.origin
    return structs.replace(seal, origin=maker, made_under=seal.made_under or PREFIX_UNKNOWN)
