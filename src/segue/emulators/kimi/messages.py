"""Rules about the conversation: ids, calls and results, reasoning that comes back, nothing empty (KIM-04 … KIM-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from segue.emulators.rules import Complaints, Refusal, rule

Message: TypeAlias = Mapping[str, Any]
_PARTS = ("text", "image_url", "video_url")


def message_complaints(messages: Sequence[Message], *, thinking: bool) -> Complaints:
    for position, message in enumerate(messages):
        yield from empty_text(message)
        yield from empty_message(message, position)
        yield from foreign_parts(message)
    yield from repeated_ids(messages)
    yield from pairing(messages)
    if thinking:
        yield from missing_reasoning(messages)


def calls_of(message: Message) -> Sequence[Message]:
    return (message.get("tool_calls") or ()) if message.get("role") == "assistant" else ()


@rule("KIM-10")
def empty_text(message: Message) -> Complaints:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    if any(
        isinstance(part, Mapping) and part.get("type") == "text" and not part.get("text") for part in parts
    ):
        yield Refusal("KIM-10", "text content is empty")


@rule("KIM-10")
@rule("KIM-23", "M")
def empty_message(message: Message, position: int) -> Complaints:
    """Reasoning alone does not fill a message; a result or a system message may be empty."""
    role = message.get("role")
    if role in ("tool", "system") or message.get("content") or calls_of(message) or message.get("partial"):
        return
    yield Refusal("KIM-10", f"message at position {position} with role '{role}' must not be empty")


@rule("KIM-11", "M")
def foreign_parts(message: Message) -> Complaints:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _PARTS:
            yield Refusal("KIM-11", f"Invalid request: unsupported content type {kind}", confidence="M")


@rule("KIM-04")
def repeated_ids(messages: Sequence[Message]) -> Complaints:
    seen: set[str] = set()
    for call in (call for message in messages for call in calls_of(message)):
        if call["id"] in seen:
            yield Refusal("KIM-04", f"Invalid request: tool call id {call['id']} is duplicated")
        seen.add(call["id"])


def pairing(messages: Sequence[Message]) -> Complaints:
    """Results stand right behind their calls, in any order."""
    open_ids: list[str] = []
    known: frozenset[str] = frozenset()
    for message in messages:
        if message.get("role") == "tool":
            yield from unknown_result(message, known)
            open_ids = [call_id for call_id in open_ids if call_id != message.get("tool_call_id")]
            continue
        yield from unanswered_calls(open_ids)
        open_ids = [call["id"] for call in calls_of(message)]
        known = frozenset(open_ids)
    yield from unanswered_calls(open_ids)


@rule("KIM-05")
def unanswered_calls(open_ids: Sequence[str]) -> Complaints:
    if open_ids:
        yield Refusal(
            "KIM-05",
            "an assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(dict.fromkeys(open_ids)),
        )


@rule("KIM-06")
def unknown_result(message: Message, known: frozenset[str]) -> Complaints:
    """An empty id shows as two spaces."""
    given = message.get("tool_call_id")
    identifier = given if isinstance(given, str) else ""
    if identifier not in known:
        yield Refusal("KIM-06", f"tool_call_id {identifier} is not found")


@rule("KIM-07")
def missing_reasoning(messages: Sequence[Message]) -> Complaints:
    """An empty string counts as reasoning, an absent field does not."""
    for index, message in enumerate(messages):
        if calls_of(message) and not isinstance(message.get("reasoning_content"), str):
            yield Refusal(
                "KIM-07",
                "thinking is enabled but reasoning_content is missing in assistant tool call message "
                f"at index {index}",
            )
