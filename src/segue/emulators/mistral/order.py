"""Who may speak after whom, and that every call gets its result: the structure of the conversation.

The original skips the first message when it counts calls and results; so do we. Messages have passed the schema.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from segue.emulators.mistral.errors import ORDER
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

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
