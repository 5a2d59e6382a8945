"""The messages of a request: who may speak after whom, that every call gets its result, and what each message may hold.

The original skips the first message when it counts calls and results; so do we. Messages have passed the schema.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from segue.emulators.mistral.errors import CALL, ORDER, Location, SchemaRefusal
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = Mapping[str, Any]

_MAY_FOLLOW: Mapping[str, frozenset[str]] = {
    "system": frozenset({"user", "assistant", "system"}),
    "user": frozenset({"assistant", "system", "user"}),
    "assistant": frozenset({"assistant", "user", "tool"}),
    "tool": frozenset({"assistant", "tool", "user"}),
}
_PAIRING_BY_ID = 11
"""From this tokenizer version on, results are matched by id; before, they are only counted."""


def misplaced(messages: Sequence[Message], context: Context) -> Complaints:
    yield from no_messages(messages)
    yield from lonely_message(messages)
    yield from ends_with_assistant(messages)
    yield from result_first(messages)
    yield from unexpected_role(messages)
    yield from user_after_tool(messages, context)
    if tokenizer(context) >= _PAIRING_BY_ID:
        yield from pairs_by_id(messages)
    else:
        yield from pairs_by_count(messages)
    yield from system_with_audio(messages, context)


def tokenizer(context: Context) -> int:
    return int(context.facts.get("tokenizer", 13))


def calls_of(message: Message) -> Sequence[Message]:
    return message.get("tool_calls") or ()


def call_id(call: Message) -> str:
    """A call without an id counts as one whose id is "null"."""
    return str(call.get("id", "null"))


def _refuse(rule_id: str, message: str, confidence: Confidence = "H") -> Refusal:
    kind, code = ORDER
    return Refusal(rule_id, message, type=kind, code=code, confidence=confidence)


@rule("MIS-V02")
def no_messages(messages: Sequence[Message]) -> Complaints:
    if not messages:
        yield _refuse("MIS-V02", "Conversation must have at least one message")


@rule("MIS-V03")
def lonely_message(messages: Sequence[Message]) -> Complaints:
    if len(messages) == 1 and messages[0]["role"] not in ("user", "system"):
        yield _refuse("MIS-V03", "Conversation must start with a user message or system message")


@rule("MIS-05")
def result_first(messages: Sequence[Message]) -> Complaints:
    """The published validator skips the first message and lets it pass; the API does not. Its words are borrowed."""
    if len(messages) > 1 and messages[0]["role"] == "tool":
        yield _unequal("MIS-05")


@rule("MIS-V04")
@rule("MIS-04")
def ends_with_assistant(messages: Sequence[Message]) -> Complaints:
    if len(messages) > 1 and messages[-1]["role"] == "assistant" and not messages[-1].get("prefix"):
        yield _refuse(
            "MIS-04",
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        )


@rule("MIS-V05")
@rule("MIS-03")
@rule("MIS-14")
def unexpected_role(messages: Sequence[Message]) -> Complaints:
    named = {("user", "tool"): "MIS-03", ("assistant", "system"): "MIS-14", ("tool", "system"): "MIS-14"}
    for before, after in itertools.pairwise(messages):
        pair = (before["role"], after["role"])
        if pair[1] not in _MAY_FOLLOW[pair[0]]:
            yield _refuse(named.get(pair, "MIS-V05"), f"Unexpected role '{pair[1]}' after role '{pair[0]}'")


@rule("MIS-02")
def user_after_tool(messages: Sequence[Message], context: Context) -> Complaints:
    """Refused until spring 2026; today only by hosts that still run the older validator."""
    if not context.facts.get("legacy_order"):
        return
    for before, after in itertools.pairwise(messages):
        if (before["role"], after["role"]) == ("tool", "user"):
            yield _refuse("MIS-02", "Unexpected role 'user' after role 'tool'")


@rule("MIS-V06")
def pairs_by_count(messages: Sequence[Message]) -> Complaints:
    missing = 0
    for message in messages[1:]:
        if message["role"] == "tool":
            missing -= 1
        elif message["role"] == "assistant":
            if missing != 0:
                yield _unequal("MIS-V06")
            if message.get("tool_calls") is not None:
                missing = len(message["tool_calls"])
    if missing != 0:
        yield _unequal("MIS-V06")


@rule("MIS-V07")
@rule("MIS-V08")
@rule("MIS-V09")
@rule("MIS-V10")
@rule("MIS-05")
def pairs_by_id(messages: Sequence[Message]) -> Complaints:
    expected: set[str | None] = set()
    seen: set[str | None] = set()
    for message in messages[1:]:
        if message["role"] == "tool":
            answered = message.get("tool_call_id")
            if answered in seen:
                yield _refuse("MIS-V07", f"Duplicate tool call id {answered} in tool results")
            elif answered not in expected:
                yield _refuse("MIS-V08", f"Unexpected tool call id {answered} in tool results")
            seen.add(answered)
        elif message["role"] == "assistant":
            if len(expected) != len(seen):
                yield _unequal("MIS-05")
            expected, seen = set(), set()
            yield from _collect(message, expected)
    if len(expected) != len(seen):
        yield _unequal("MIS-05")


def _collect(message: Message, expected: set[str | None]) -> Complaints:
    for call in calls_of(message):
        if call_id(call) in expected:
            yield _refuse("MIS-V10", f"Duplicate tool call id {call_id(call)} in assistant message")
        expected.add(call_id(call))


def _unequal(rule_id: str) -> Refusal:
    return _refuse(rule_id, "Not the same number of function calls and responses")


@rule("MIS-V11")
def system_with_audio(messages: Sequence[Message], context: Context) -> Complaints:
    if tokenizer(context) != 7:
        return
    systems = [index for index, message in enumerate(messages) if message["role"] == "system"]
    audios = [index for index, message in enumerate(messages) if _has_audio(message)]
    if systems and audios:
        yield Refusal(
            "MIS-V11",
            f"Found system messages at indexes {systems} and audio chunks in messages at indexes {audios}. "
            "This is not allowed prior to the tokenizer version 13.",
        )


def _has_audio(message: Message) -> bool:
    content = message.get("content")
    return (
        message["role"] == "user"
        and isinstance(content, list)
        and any(chunk["type"] in ("input_audio", "audio_url") for chunk in content)
    )


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
