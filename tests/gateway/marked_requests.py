"""Requests of real clients, with a mark in each call and each result, and what happens to such histories on the way."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final, TypeAlias

FIELDS: Final = {
    "openai_chat": "messages",
    "mistral": "messages",
    "ollama": "messages",
    "anthropic": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
_MARK = re.compile(r"(?:call|result)#(\w+)#")


def marked(wire: str, items: list[Any]) -> list[Any]:
    """The same history: each call holds `call#N#` in its arguments, and each result `result#N#`, where N is the call's.

    Where an id is missing or was given twice, only the order would tell which call a result answers; such results are marked
    as `lost`, and whose they are is not asked.
    """
    history = deepcopy(items)
    places = list(_places(wire, history))
    given = Counter(call_id for kind, call_id, _ in places if kind == "call")
    numbers = {call_id: f"n{place}" for place, (kind, call_id, _) in enumerate(places) if kind == "call"}
    for place, (kind, call_id, write) in enumerate(places):
        if kind == "call":
            write(f"call#n{place}#")
        else:
            write(f"result#{numbers[call_id] if call_id and given[call_id] == 1 else f'lost{place}'}#")
    return history


Place: TypeAlias = tuple[str, str, Callable[[str], None]]
"""A call or a result: which it is, its id, and how to write into it."""


def _places(wire: str, history: list[Any]) -> Iterator[Place]:
    places = {"anthropic": _in_blocks, "gemini": _in_parts, "openai_responses": _in_item}.get(
        wire, _in_message
    )
    for item in history:
        if isinstance(item, dict):
            yield from places(item)


def _in_blocks(message: dict[str, Any]) -> Iterator[Place]:
    for block in message["content"] if isinstance(message.get("content"), list) else ():
        if block.get("type") == "tool_use":
            yield "call", block["id"], _into(block, "input")
        elif block.get("type") == "tool_result":
            yield "result", block["tool_use_id"], _into_content(block, "content", "text")


def _in_parts(content: dict[str, Any]) -> Iterator[Place]:
    for part in content.get("parts") or []:
        if call := part.get("functionCall"):
            yield "call", call.get("id") or "", _into(call, "args")
        elif found := part.get("functionResponse"):
            yield "result", found.get("id") or "", _into(found, "response")


def _in_item(item: dict[str, Any]) -> Iterator[Place]:
    if item.get("type") == "function_call":
        yield "call", item["call_id"], _into_text(item, "arguments")
    elif item.get("type") == "function_call_output":
        yield "result", item["call_id"], _into_content(item, "output", "input_text")


def _in_message(message: dict[str, Any]) -> Iterator[Place]:
    for call in message.get("tool_calls") or []:
        function = call["function"]
        into = _into if isinstance(function.get("arguments"), dict) else _into_text
        yield "call", call.get("id") or "", into(function, "arguments")
    if message.get("role") == "tool":
        yield "result", message.get("tool_call_id") or "", _into_content(message, "content", "text")


def _into(held: dict[str, Any], field: str) -> Callable[[str], None]:
    def write(mark: str) -> None:
        if isinstance(held.get(field) or {}, dict):
            held[field] = {**(held.get(field) or {}), "mark": mark}

    return write


def _into_text(held: dict[str, Any], field: str) -> Callable[[str], None]:
    def write(mark: str) -> None:
        try:
            value = json.loads(held.get(field) or "{}")
        except ValueError:
            return
        if isinstance(value, dict):
            held[field] = json.dumps({**value, "mark": mark})

    return write


def _into_content(held: dict[str, Any], field: str, kind: str) -> Callable[[str], None]:
    def write(mark: str) -> None:
        content = held.get(field)
        if isinstance(content, list):
            content.append({"type": kind, "text": mark})
        else:
            held[field] = f"{content or ''} {mark}"

    return write


def marks_in(items: list[Any]) -> set[str]:
    """The marks of results that a history holds."""
    return set(re.findall(r"result#\w+#", json.dumps(items)))


def _pairs(provider: str, body: Any) -> Iterator[tuple[str, str]]:
    """Each call that a provider got, and the result that it takes for the call's, both as JSON."""
    if provider == "anthropic":
        yield from _by_id(_anthropic_parts(body["messages"]))
    elif "input" in body:
        yield from _by_id(_response_parts(body["input"]))
    elif "contents" in body:
        yield from _in_order(body["contents"])
    else:
        yield from _by_id(_chat_parts(body["messages"]))


def _by_id(parts: Iterator[tuple[str, str, Any]]) -> Iterator[tuple[str, str]]:
    made: dict[str, str] = {}
    for kind, call_id, value in parts:
        if kind == "call":
            made[call_id] = json.dumps(value)
        else:
            yield made.get(call_id, ""), json.dumps(value)


def _anthropic_parts(messages: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                yield "call", block["id"], block["input"]
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"], block.get("content")


def _response_parts(items: Any) -> Iterator[tuple[str, str, Any]]:
    for item in items if isinstance(items, list) else ():
        if item.get("type") == "function_call":
            yield "call", item["call_id"], item["arguments"]
        elif item.get("type") == "function_call_output":
            yield "result", item["call_id"], item["output"]


def _chat_parts(messages: list[Any]) -> Iterator[tuple[str, str, Any]]:
    """Where calls have no ids, the results follow in their order."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        calls = message.get("tool_calls") or []
        if calls:
            open_calls = [call.get("id") or f"{number}.{place}" for place, call in enumerate(calls)]
            yield from (
                ("call", one, call["function"]["arguments"])
                for one, call in zip(open_calls, calls, strict=True)
            )
        elif message["role"] == "tool":
            first = open_calls.pop(0) if open_calls else ""
            yield "result", message.get("tool_call_id") or first, message["content"]


def _in_order(contents: list[Any]) -> Iterator[tuple[str, str]]:
    calls: list[Any] = []
    for content in contents:
        for part in content.get("parts") or ():
            if "functionCall" in part:
                calls.append(part["functionCall"].get("args"))
            elif "functionResponse" in part:
                answered = calls.pop(0) if calls else ""
                yield json.dumps(answered), json.dumps(part["functionResponse"]["response"])


def swapped(provider: str, body: Any) -> list[tuple[str, str]]:
    """Calls with the result of another one. Where that is gone, a result that follows a call without an id is the call's."""
    found, pairs = [], list(_pairs(provider, body))
    known = {mark for call, _ in pairs for mark in _MARK.findall(call)}
    for call, result in pairs:
        asked, answered = set(_MARK.findall(call)), set(_MARK.findall(result)) & known
        if asked and answered and not asked & answered:
            found.append((call, result))
    return found


# What happens to a history


def _drop(random: Random, items: list[Any]) -> list[Any]:
    at = random.randrange(len(items))
    return items[:at] + items[at + 1 :]


def _duplicate(random: Random, items: list[Any]) -> list[Any]:
    at, to = random.randrange(len(items)), random.randrange(len(items) + 1)
    return [*items[:to], deepcopy(items[at]), *items[to:]]


def _swap(random: Random, items: list[Any]) -> list[Any]:
    one, other = random.randrange(len(items)), random.randrange(len(items))
    items = list(items)
    items[one], items[other] = items[other], items[one]
    return items


def _truncate(random: Random, items: list[Any]) -> list[Any]:
    begin = random.choice((0, 0, random.randrange(len(items))))
    return items[begin : random.randrange(begin, len(items)) + 1]


def _interject(random: Random, items: list[Any]) -> list[Any]:
    """The user, or the operator, speaks up anywhere."""
    at = random.randrange(len(items) + 1)
    gemini = any(isinstance(item, dict) and "parts" in item for item in items)
    said = random.choice(("Wait.", "", " ", "\x00 \U0001f600"))
    role = random.choice(("user", "user", "model" if gemini else "assistant"))
    spoken = {"role": role, **({"parts": [{"text": said}]} if gemini else {"content": said})}
    return [*items[:at], spoken, *items[at:]]


def _break_inside(random: Random, items: list[Any]) -> list[Any]:
    """The same with the parts of one message."""
    items = deepcopy(items)
    for item in random.sample(items, len(items)):
        for field in ("content", "parts", "tool_calls"):
            parts = item.get(field) if isinstance(item, dict) else None
            if isinstance(parts, list) and parts:
                item[field] = random.choice((_drop, _duplicate, _swap, _truncate))(random, parts)
                return items
    return items


_CHANGES = (_drop, _duplicate, _swap, _truncate, _interject, _break_inside)


def mutated(random: Random, items: list[Any]) -> list[Any]:
    for _ in range(random.choice((1, 1, 2, 3))):
        if items:
            items = random.choice(_CHANGES)(random, items)
    return items
