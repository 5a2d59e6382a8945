"""What the model of an emulated provider reads of a request, with all that the provider holds before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from segue.emulators.emulator import Emulator, Entry

_ABOUT_STATE = frozenset(
    {
        *("model", "stream", "stream_options", "store", "thread", "previous_response_id"),
        *("previous_interaction_id", "cachedContent", "cached_content"),
    }
)
"""Fields that say how a request is sent, not what the model reads."""
_OF_ITEMS = frozenset({"id", "status", "annotations", "logprobs", "phase"})
"""What a provider adds to its own items, and a client need not send back."""


def wire_of(entry: Entry) -> Callable[..., Any]:
    """Makes what a model reads of a request that holds everything; `delta`: comparable with one of which a part was held."""
    if "interactions" in entry.path:
        return _interaction
    return {
        "openai": _response if "responses" in entry.path else _plain,
        "anthropic": _message,
        "gemini": _content,
    }.get(entry.provider, _plain)


def read_by_model(emulator: Emulator, entry: Entry) -> tuple[Any, bool]:
    """And whether only a part of it was sent."""
    memory, body = emulator.memory(entry.provider), dict(entry.body)
    form = wire_of(entry)
    if name := body.get("previous_response_id"):
        body["input"] = [*memory["responses"][name]["items"], *body["input"]]
        return form(body, delta=True), True
    if name := body.get("previous_interaction_id"):
        body["input"] = [*memory["interactions"][name]["steps"], *body["input"]]
        return form(body, delta=True), True
    thread = body.get("thread") or {}
    if name := thread.get("previous_message_id"):
        held = memory["threads"][name]
        kept = {field: held[field] for field in ("system", "tools") if field in held}
        body = {**kept, **body, "messages": [*held["messages"], *body["messages"]]}
        return form(body, delta=True), True
    if name := body.get("cachedContent"):
        cached = memory["cached_contents"][name]["content"]
        body = {**cached, **body, "contents": [*cached["contents"], *body["contents"]]}
        return form(body, delta=True), True
    return form(body, delta=False), False


def _plain(body: Mapping[str, Any], *, delta: bool) -> Any:
    del delta
    return {name: value for name, value in body.items() if name not in _ABOUT_STATE}


def _message(body: Mapping[str, Any], *, delta: bool) -> Any:
    rest = _plain(body, delta=delta)
    if not delta:
        return rest
    said = {name: rest[name] for name in ("system", "tools") if name in rest}
    return {**said, "messages": [_blocks(message) for message in rest["messages"]]}


def _blocks(message: Any) -> Any:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [_bare(block) for block in blocks]}


def _bare(block: Mapping[str, Any]) -> Any:
    return {
        name: value for name, value in block.items() if name not in ("citations", "cache_control", "caller")
    }


def _response(body: Mapping[str, Any], *, delta: bool) -> Any:
    rest = _plain(body, delta=delta)
    said = {name: rest[name] for name in ("instructions", "tools") if name in rest} if delta else rest
    return {**said, "input": [_item(item) for item in rest["input"]]}


def _item(item: Mapping[str, Any]) -> Any:
    kept: dict[str, Any] = {name: value for name, value in item.items() if name not in _OF_ITEMS}
    kept.setdefault("type", "message")
    if isinstance(kept.get("content"), str):
        kind = "output_text" if kept.get("role") == "assistant" else "input_text"
        kept["content"] = [{"type": kind, "text": kept["content"]}]
    elif isinstance(kept.get("content"), list):
        kept["content"] = [
            {name: value for name, value in part.items() if name not in _OF_ITEMS} for part in kept["content"]
        ]
    return kept


def _interaction(body: Mapping[str, Any], *, delta: bool) -> Any:
    rest = _plain(body, delta=delta)
    said = {name: rest[name] for name in ("system_instruction", "tools") if name in rest} if delta else rest
    return {**said, "input": [_step(step) for step in rest["input"]]}


def _step(step: Mapping[str, Any]) -> Any:
    """Clients keep the summary of a thought in the pieces in which it came."""
    if step["type"] != "thought" or "summary" not in step:
        return step
    return {**step, "summary": "".join(part["text"] for part in step["summary"])}


def _content(body: Mapping[str, Any], *, delta: bool) -> Any:
    """What is cached is held in another spelling, and clients keep text in the pieces in which it came."""
    rest = _plain(body, delta=delta)
    rest["contents"] = [{**one, "parts": _joined(one["parts"])} for one in rest["contents"]]
    if not delta:
        return rest
    # What we have forgotten comes back as its client holds it: a thought of another model is a thought without a signature.
    rest["contents"] = [{**one, "parts": [*filter(_is_said, one["parts"])]} for one in rest["contents"]]
    tools = [
        tool.get("functionDeclarations", tool.get("function_declarations")) for tool in rest.pop("tools", ())
    ]
    system = rest.pop("systemInstruction", None) or rest.pop("system_instruction", None)
    return {
        "contents": rest["contents"],
        "system": system,
        "tools": [[one["name"] for one in declared] for declared in tools],
    }


def _is_said(part: Mapping[str, Any]) -> bool:
    return not part.get("thought") or "thoughtSignature" in part


def _joined(parts: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for part in parts:
        before = joined[-1] if joined else {}
        if (
            "text" in part
            and before.keys() <= part.keys()
            and "text" in before
            and before.get("thought") == part.get("thought")
        ):
            joined[-1] = {**part, "text": before["text"] + part["text"]}
        else:
            joined.append(part)
    return joined
