"""What each message may hold: chunk types by role and tokenizer version, ids and names of calls, prefixes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from segue.emulators.mistral.errors import CALL, Location, SchemaRefusal
from segue.emulators.mistral.order import Message, call_id, calls_of, tokenizer
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\n?")
"""The original's `$` also lets one line break through at the end."""
_ID = re.compile(r"[a-zA-Z0-9]{9}\n?")

_CLASSES: Mapping[str, str] = {
    "text": "TextChunk",
    "image_url": "ImageURLChunk",
    "input_audio": "AudioChunk",
    "audio_url": "AudioURLChunk",
    "thinking": "ThinkChunk",
    "document_url": "DocumentURLChunk",
    "file": "FileChunk",
    "reference": "ReferenceChunk",
}
_SEEN = frozenset({"text", "image_url", "input_audio", "audio_url", "document_url", "file", "reference"})
_EVER: Mapping[str, frozenset[str]] = {
    "system": frozenset({"text", "input_audio", "thinking"}),
    "user": _SEEN,
    "assistant": frozenset({"text", "thinking", "reference"}),
    "tool": _SEEN,
}
"""What a role may hold in any version."""


def _allowed(role: str, version: int) -> frozenset[str]:
    """MIS-V13, MIS-10, MIS-15: what a role may hold in this tokenizer version."""
    since: Mapping[str, Mapping[str, int]] = {
        "user": {"image_url": 3, "input_audio": 7, "audio_url": 7},
        "assistant": {"thinking": 11},
        "system": {"input_audio": 7, "thinking": 7},
        "tool": dict.fromkeys(_SEEN - {"text"}, 15),
    }
    allowed = frozenset(kind for kind in _EVER[role] if since[role].get(kind, 0) <= version)
    return allowed - {"thinking"} if role == "system" and version >= 15 else allowed


def chunks_of(message: Message) -> Sequence[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


@rule("MIS-V12")
def impossible_chunks(messages: Sequence[Message]) -> Iterator[SchemaRefusal]:
    """Chunks that a role can hold in no version fail with the schema."""
    for index, message in enumerate(messages):
        role = message["role"]
        foreign = [chunk["type"] for chunk in chunks_of(message) if chunk["type"] not in _EVER[role]]
        if foreign:
            location: Location = ("messages", index, role)
            text = f"Value error, {_CLASSES[foreign[0]]} cannot be used in {role} message."
            yield SchemaRefusal(
                rule="MIS-V12", code="value_error", message=text, location=location, input=dict(message)
            )


def unfit(messages: Sequence[Message], context: Context) -> Complaints:
    """The checks of the original, message by message."""
    for index, message in enumerate(messages):
        yield from chunk_types(message, context)
        if message["role"] == "assistant":
            yield from empty_assistant(message)
            yield from content_and_calls(message, context)
            for call in calls_of(message):
                yield from call_ids(call_id(call), context)
                yield from function_names(call["function"]["name"])
            yield from early_prefix(message, is_last=index == len(messages) - 1)
        elif message["role"] == "tool":
            if message.get("name") is not None:
                yield from function_names(message["name"])
            yield from result_ids(message.get("tool_call_id"), context)


@rule("MIS-V13")
@rule("MIS-10")
@rule("MIS-15")
def chunk_types(message: Message, context: Context) -> Complaints:
    role = message["role"]
    allowed = _allowed(role, tokenizer(context)) | (frozenset(_CLASSES) - _EVER[role])
    foreign = sorted(
        {_CLASSES[chunk["type"]] for chunk in chunks_of(message) if chunk["type"] not in allowed}
    )
    if foreign:
        named = {"assistant": "MIS-10", "tool": "MIS-15"}
        yield Refusal(
            named.get(role, "MIS-V13"), f"Unexpected content chunk types in {role} message: {foreign}"
        )


@rule("MIS-06")
def empty_assistant(message: Message) -> Complaints:
    if not message.get("content") and not calls_of(message):
        yield Refusal("MIS-06", "Assistant message must have either content or tool_calls, but not none.")


@rule("MIS-V14")
def content_and_calls(message: Message, context: Context) -> Complaints:
    if tokenizer(context) <= 3 and message.get("content") and calls_of(message):
        yield Refusal("MIS-V14", "Assistant message must have either content or tool_calls, but not both.")


@rule("MIS-V15")
def early_prefix(message: Message, *, is_last: bool) -> Complaints:
    if message.get("prefix") and not is_last:
        yield Refusal("MIS-V15", "Assistant message with prefix True must be last message")


def _bad_call(rule_id: str, message: str) -> Refusal:
    kind, code = CALL
    return Refusal(rule_id, message, type=kind, code=code)


@rule("MIS-V16")
@rule("MIS-V18")
def call_ids(identifier: str, context: Context) -> Complaints:
    version = tokenizer(context)
    if version >= 13 and identifier in ("", "null"):
        yield _nameless()
    elif 3 <= version < 13 and identifier == "null":
        yield _bad_call("MIS-V16", "Tool call id has to be defined in serving mode.")
    else:
        yield from nine_characters(identifier, context)


@rule("MIS-V19")
def result_ids(identifier: str | None, context: Context) -> Complaints:
    version = tokenizer(context)
    if version >= 13 and identifier in (None, "", "null"):
        yield _nameless()
    elif version >= 3 and identifier is None:
        yield _bad_call("MIS-V19", "Tool call id has to be defined.")
    elif identifier is not None:
        yield from nine_characters(identifier, context)


def _nameless() -> Refusal:
    return _bad_call(
        "MIS-V18",
        "Tool call id must be a non-empty string other than 'null' for tokenizer version 13 or newer.",
    )


@rule("MIS-01")
@rule("MIS-V17")
def nine_characters(identifier: str, context: Context) -> Complaints:
    """Models of other makers that Mistral hosts write ids of their own and are free of this rule."""
    version = tokenizer(context)
    if version < 3 or not context.facts.get("nine_character_ids", True):
        return
    if not _ID.fullmatch(identifier):
        yield _bad_call(
            "MIS-01" if version >= 13 else "MIS-V17",
            f"Tool call id was {identifier} but must be a-z, A-Z, 0-9, with a length of 9.",
        )


@rule("MIS-V20")
def function_names(name: str) -> Complaints:
    if not _NAME.fullmatch(name):
        yield _bad_call(
            "MIS-V20",
            f"Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, "
            "with a maximum length of 64.",
        )
