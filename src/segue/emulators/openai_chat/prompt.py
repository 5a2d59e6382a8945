"""What a responder may know of a Chat Completions request, and the segments by which its prefix is cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segue.emulators.model.model_reply import Offer, Prompt


def text_in(content: object) -> str:
    """All text of a content field, which may be a string or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def prompt_of(body: Mapping[str, Any], *, provider: str, thinking: bool = False) -> Prompt:
    text, results = _last_turn(body["messages"])
    offers, must_call = _offers(body)
    return Prompt(
        provider=provider,
        model=str(body.get("model", "")),
        text=text,
        results=results,
        tools=offers,
        must_call=must_call,
        parallel=body.get("parallel_tool_calls") is not False,
        schema=schema_in(body.get("response_format")),
        thinking=thinking,
    )


def schema_in(wanted: object) -> Mapping[str, Any] | None:
    """The schema of a `response_format` (Chat) or `text.format` (Responses)."""
    if not isinstance(wanted, Mapping):
        return None
    if wanted.get("type") == "json_object":
        return {"type": "object"}
    inner = wanted.get("json_schema", wanted)
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    return schema if wanted.get("type") == "json_schema" and isinstance(schema, Mapping) else None


def _last_turn(messages: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[str, ...]]:
    results: list[str] = []
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_in(message.get("content")), tuple(reversed(results))
        if message.get("role") == "tool":
            results.append(text_in(message.get("content")))
    return "", tuple(reversed(results))


def _offers(body: Mapping[str, Any]) -> tuple[tuple[Offer, ...], bool]:
    tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    offers = tuple(
        Offer(tool["function"]["name"], tool["function"].get("parameters") or {}) for tool in tools
    )
    return chosen(offers, body.get("tool_choice"))


def chosen(offers: tuple[Offer, ...], choice: object) -> tuple[tuple[Offer, ...], bool]:
    """The tools that a choice leaves, and whether one must be called. Responses names a tool without `function`."""
    match choice:
        case "none":
            return (), False
        case "required":
            return offers, bool(offers)
        case {"function": {"name": name}} | {"type": "function", "name": name}:
            named = tuple(offer for offer in offers if offer.name == name)
            return named, bool(named)
        case _:
            return offers, False


def segments_of(body: Mapping[str, Any]) -> list[object]:
    """The prompt in the order of its prefix: tools first, then the messages (OAI-01)."""
    messages = body.get("messages")
    return [body.get("tools"), *(messages if isinstance(messages, list) else ())]
