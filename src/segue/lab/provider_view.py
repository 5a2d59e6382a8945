"""What a request that reached a provider contains, read by the rules of its wire: messages, calls with their results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Pair(Struct, frozen=True):
    """A call and the result that stands under its id."""

    name: str
    arguments: Any
    result: str


def messages_of(wire: str, body: Mapping[str, Any]) -> list[Any]:
    key = {"responses": "input", "gemini": "contents"}.get(wire, "messages")
    found = body.get(key)
    return found if isinstance(found, list) else []


def pairs_of(wire: str, body: Mapping[str, Any]) -> list[Pair]:
    """In the order of the results."""
    calls: dict[str, tuple[str, Any]] = {}
    pairs = []
    for kind, key, value in _READERS[wire](messages_of(wire, body)):
        if kind == "call":
            calls[key] = value
        elif key in calls:
            pairs.append(Pair(*calls.pop(key), value))
    return pairs


def as_cached(value: Any) -> Any:
    """A message as a provider's cache sees it: without marks, which clients move along, and with a text as the one block that it
    stands for."""
    if isinstance(value, dict):
        kept = {key: as_cached(item) for key, item in value.items() if key != "cache_control"}
        if isinstance(kept.get("content"), str) and "role" in kept:
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        return kept
    return [as_cached(item) for item in value] if isinstance(value, list) else value


def has_cache_mark(body: Mapping[str, Any]) -> bool:
    return '"cache_control"' in json.dumps(body)


def reference_of(body: Mapping[str, Any]) -> bool:
    """The request names earlier content that the provider holds itself."""
    return any(body.get(key) for key in ("previous_response_id", "conversation", "thread", "cachedContent"))


def _chat(messages: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            made = call["function"]
            yield "call", call["id"], (made["name"], json.loads(made["arguments"] or "{}"))
        if message.get("role") == "tool":
            yield "result", message["tool_call_id"], _text(message.get("content"))


def _messages(messages: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                yield "call", block["id"], (block["name"], block["input"])
            elif block.get("type") == "tool_result":
                yield "result", block["tool_use_id"], _text(block.get("content"))


def _responses(items: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for item in items:
        if item.get("type") == "function_call":
            yield "call", item["call_id"], (item["name"], json.loads(item["arguments"] or "{}"))
        elif item.get("type") == "function_call_output":
            yield "result", item["call_id"], _text(item.get("output"))


def _gemini(contents: list[Any]) -> Iterator[tuple[str, str, Any]]:
    """Ids may be missing; then results follow their calls in order, each under its name. The wire takes both spellings of a key."""
    numbers: dict[tuple[str, str], int] = {}
    for content in contents:
        for part in content.get("parts") or ():
            for kind, key, other in _GEMINI_KEYS:
                found = part.get(key) or part.get(other)
                if found:
                    name = found["name"]
                    number = numbers[kind, name] = numbers.get((kind, name), 0) + 1
                    value = (name, found.get("args") or {}) if kind == "call" else _text(found["response"])
                    yield kind, found.get("id") or f"{name} {number}", value


_GEMINI_KEYS = (
    ("call", "functionCall", "function_call"),
    ("result", "functionResponse", "function_response"),
)
_READERS = {"chat": _chat, "messages": _messages, "responses": _responses, "gemini": _gemini}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
