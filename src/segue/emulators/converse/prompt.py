"""A request as the model reads it: segments in the order of the prompt, and what a responder may know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.model.model_reply import Offer, Prompt
from segue.emulators.model.prompt_cache import Mark, plain

if TYPE_CHECKING:
    from segue.emulators.rules import Context

_Body = Mapping[str, Any]


def segments(body: _Body) -> list[object]:
    """Tools, system, messages, without cache points."""
    return [segment for segment in _entries(body) if not isinstance(segment, Mark)]


def cached_segments(body: _Body) -> list[object]:
    """The prefix up to the last cache point; nothing is cached without one."""
    entries = _entries(body)
    last = max((place for place, entry in enumerate(entries) if isinstance(entry, Mark)), default=-1)
    return entries[: last + 1]


def _entries(body: _Body) -> list[object]:
    """Everything in order, with its cache points."""
    config = body.get("toolConfig")
    lists = [
        config.get("tools") if isinstance(config, Mapping) else None,
        body.get("system"),
        *(message.get("content") for message in _messages(body)),
    ]
    return [
        _point(entry["cachePoint"]) if isinstance(entry, Mapping) and "cachePoint" in entry else _plain(entry)
        for entries in lists
        for entry in (entries if isinstance(entries, list) else ())
    ]


def _point(value: Any) -> Mark:
    return Mark(3600 if isinstance(value, Mapping) and value.get("ttl") == "1h" else 300)


def _messages(body: _Body) -> list[Any]:
    messages = body.get("messages")
    return (
        [message for message in messages if isinstance(message, Mapping)]
        if isinstance(messages, list)
        else []
    )


def _plain(value: Any) -> Any:
    return plain(value, media="bytes", seal="signature")


def thinks(body: _Body, context: Context) -> bool:
    fields = body.get("additionalModelRequestFields") or {}
    config = fields.get("thinking") or fields.get("reasoningConfig") or {}
    return bool(context.facts.get("thinking")) and config.get("type") in ("enabled", "adaptive")


def prompt(body: _Body, context: Context) -> Prompt:
    text, results = _last_words(body)
    config = body.get("toolConfig") or {}
    choice = config.get("toolChoice") or {}
    wanted = choice.get("tool", {}).get("name")
    specs = [tool["toolSpec"] for tool in config.get("tools", ()) if "toolSpec" in tool]
    shape = (body.get("outputConfig") or {}).get("textFormat")
    return Prompt(
        provider="bedrock",
        model=context.model,
        text=text,
        results=results,
        tools=tuple(
            Offer(spec["name"], spec["inputSchema"]["json"])
            for spec in specs
            if wanted in (None, spec["name"])
        ),
        must_call="any" in choice or "tool" in choice,
        schema=msgspec.json.decode(shape["structure"]["jsonSchema"]["schema"]) if shape else None,
        thinking=thinks(body, context),
    )


def _last_words(body: _Body) -> tuple[str, tuple[str, ...]]:
    """The user's last text, and the results that came after it."""
    results: list[str] = []
    for message in reversed(_messages(body)):
        if message["role"] != "user":
            continue
        texts = [block["text"] for block in message["content"] if "text" in block]
        held = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        results = [*(_result_text(result["content"]) for result in held), *results]
        if texts:
            return "\n".join(texts), tuple(results)
    return "", tuple(results)


def _result_text(parts: list[Any]) -> str:
    texts = [
        part["text"] if "text" in part else msgspec.json.encode(part["json"]).decode()
        for part in parts
        if "text" in part or "json" in part
    ]
    return "\n".join(texts)
