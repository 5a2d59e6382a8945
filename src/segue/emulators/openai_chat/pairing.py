"""Calls and their results: every call is answered at once, by exactly one tool message (CHAT-10 … CHAT-15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segue.emulators.rules import Complaints, Refusal, rule


class _Group:
    """The calls of one assistant message and which of them are answered, by the index of the answer."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.answered: dict[str, int] = {}

    @property
    def unanswered(self) -> list[str]:
        return [call_id for call_id in dict.fromkeys(self.ids) if call_id not in self.answered]


def pairing_complaints(messages: Sequence[object]) -> Complaints:
    group: _Group | None = None
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "tool":
            yield from stray_result(group, index)
            yield from result_of_no_call(group, message, index)
            yield from second_result(group, message, index)
            _note_answer(group, message, index)
            continue
        yield from unanswered_calls(group, index)
        group = _group(message)
    yield from unanswered_calls(group, len(messages))


def _group(message: Mapping[str, Any]) -> _Group | None:
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list) or not calls:
        return None
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)]
    return _Group([call_id for call_id in ids if isinstance(call_id, str)])


def _note_answer(group: _Group | None, message: Mapping[str, Any], index: int) -> None:
    call_id = message.get("tool_call_id")
    if group is not None and isinstance(call_id, str):
        group.answered.setdefault(call_id, index)


@rule("CHAT-10", "H")
@rule("CHAT-15", "M")
@rule("CHAT-19", "H")
def unanswered_calls(group: _Group | None, index: int) -> Complaints:
    if group is not None and group.unanswered:
        yield Refusal(
            "CHAT-10",
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(group.unanswered),
            param=f"messages.[{index}].role",
        )


@rule("CHAT-11", "H")
def stray_result(group: _Group | None, index: int) -> Complaints:
    if group is None:
        yield Refusal(
            "CHAT-11",
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            param=f"messages.[{index}].role",
        )


@rule("CHAT-12", "M")
def result_of_no_call(group: _Group | None, message: Mapping[str, Any], index: int) -> Complaints:
    call_id = message.get("tool_call_id")
    if group is not None and isinstance(call_id, str) and call_id not in group.ids:
        yield Refusal(
            "CHAT-12",
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message.",
            param=f"messages.[{index}].tool_call_id",
            confidence="M",
        )


@rule("CHAT-13", "H")
def second_result(group: _Group | None, message: Mapping[str, Any], index: int) -> Complaints:
    call_id = message.get("tool_call_id")
    if group is None or not isinstance(call_id, str):
        return
    if call_id in group.ids and call_id in group.answered:
        yield Refusal(
            "CHAT-13",
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in "
            f"messages[{group.answered[call_id]}] and messages[{index}].",
            param=f"messages.[{index}].tool_call_id",
        )
