"""Cline: one JSON object with messages in the blocks of the Messages wire. Messages that are only shown are dropped."""

from __future__ import annotations

from typing import Any, Final

from segue.interop.agents.session_file import (
    Said,
    SessionFile,
    fields,
    json_text,
    messages_session,
    objects,
    text_of,
)

_FIELDS: Final = frozenset({"version", "sessionId", "messages"})
_WIRE = "anthropic"


def read_cline(document: object) -> SessionFile | None:
    session = fields(document)
    if not session.keys() >= _FIELDS or "projectHash" in session:
        return None
    said: list[Said] = []
    for message in objects(session["messages"]):
        if fields(message.get("metadata")).get("displayOnly"):
            continue
        wrote = fields(message.get("modelInfo"))
        signed = wrote.get("provider") == _WIRE
        name = text_of(wrote.get("id")) if signed else ""
        content = message.get("content")
        if isinstance(content, list):
            content = [_block(block, signed=signed) for block in objects(content)]
        model = name if message.get("role") == "assistant" else None
        said.append(Said({"role": message.get("role"), "content": content}, model=model))
    return messages_session("Cline session", said, system=text_of(session.get("system_prompt")))


def _block(block: dict[str, Any], *, signed: bool) -> dict[str, Any]:
    match block.get("type"):
        case "thinking":
            signature = text_of(block.get("signature")) if signed else ""
            return {"type": "thinking", "thinking": text_of(block.get("thinking")), "signature": signature}
        case "tool_result":
            return {**_of_the_wire(block), "content": _output(block.get("content"))}
        case _:
            return _of_the_wire(block)


_KEPT = ("type", "text", "id", "name", "input", "tool_use_id", "is_error", "source", "title", "data")


def _of_the_wire(block: dict[str, Any]) -> dict[str, Any]:
    """The block without the fields that are Cline's own, which the provider never saw."""
    kept = {name: value for name, value in block.items() if name in _KEPT}
    if kept.get("type") == "tool_result":
        kept.pop("name", None)
    return kept


def _output(content: object) -> object:
    """A result as the wire takes it: text, or blocks. Cline also keeps a tool's own records there."""
    if isinstance(content, list) and all("type" in fields(item) for item in content):
        return content
    return json_text(content)
