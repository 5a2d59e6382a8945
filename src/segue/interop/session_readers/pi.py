"""pi: a tree of entries. Signatures are kept for the replies that came over the Messages wire."""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    current_branch,
    fields,
    image_block,
    messages_session,
    objects,
    text_block,
    text_of,
)

_WIRE, _HOME = "anthropic-messages", "anthropic"


def read_pi(rows: list[Row]) -> SessionFile | None:
    if not any(row.get("type") == "session" and "cwd" in row and "id" in row for _, row in rows):
        return None
    said = [
        Said(message, number, _model(entry))
        for number, entry in sent_entries(rows)
        if (message := _message(entry)) and message["content"]
    ]
    return messages_session("pi session", said, **_settings(_branch(rows)))


def sent_entries(rows: list[Row]) -> list[Row]:
    """The entries that the next request holds."""
    return _after_compaction(_branch(rows))


def _branch(rows: list[Row]) -> list[Row]:
    entries = [row for row in rows if row[1].get("type") != "session"]
    if any(isinstance(row.get("parentId"), str) for _, row in entries):
        return current_branch(entries, entries[-1], id_key="id", parent_key="parentId")
    return entries


def _model(entry: dict[str, Any]) -> str | None:
    message = fields(entry.get("message"))
    if message.get("role") != "assistant":
        return None
    return text_of(message.get("model")) if _is_signed(message) else ""


def _is_signed(message: dict[str, Any]) -> bool:
    """Whether its signatures are those of the Messages wire's own provider."""
    return message.get("api") == _WIRE and message.get("provider", _HOME) == _HOME


def _after_compaction(entries: list[Row]) -> list[Row]:
    """What is sent: the last compaction's summary, the entries it kept, and those that follow."""
    cut = next(
        (at for at in reversed(range(len(entries))) if entries[at][1].get("type") == "compaction"), None
    )
    if cut is None:
        return entries
    kept = entries[cut][1].get("firstKeptEntryId")
    first = next((at for at in range(cut) if entries[at][1].get("id") == kept), cut)
    return [entries[cut], *entries[first:cut], *entries[cut + 1 :]]


def _message(entry: dict[str, Any]) -> dict[str, Any] | None:
    message = fields(entry.get("message"))
    match entry.get("type"), message.get("role"):
        case (("compaction" | "branch_summary"), _):
            return {"role": "user", "content": text_of(entry.get("summary"))}
        case "custom_message", _:
            return {"role": "user", "content": _blocks(entry.get("content"))}
        case "message", ("user" | "custom"):
            return {"role": "user", "content": _blocks(message.get("content"))}
        case "message", "assistant":
            return {"role": "assistant", "content": _reply(message)}
        case "message", "toolResult":
            return {"role": "user", "content": [_result(message)]}
        case "message", "bashExecution" if not message.get("excludeFromContext"):
            command, output = text_of(message.get("command")), text_of(message.get("output"))
            return {"role": "user", "content": f"I ran this command:\n{command}\n\nIts output:\n{output}"}
        case _:
            return None


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks: list[dict[str, Any]] = []
    for block in objects(content):
        match block.get("type"):
            case "text":
                blocks.append(text_block(text_of(block.get("text"))))
            case "image":
                blocks.append(image_block(block.get("mimeType"), block.get("data")))
    return blocks


def _reply(message: dict[str, Any]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in objects(message.get("content")):
        match block.get("type"):
            case "text":
                blocks.append(text_block(text_of(block.get("text"))))
            case "thinking":
                blocks.append(_thinking(block, signed=_is_signed(message)))
            case "toolCall":
                call = {"id": _call_id(block.get("id")), "name": text_of(block.get("name"))}
                blocks.append({"type": "tool_use", **call, "input": block.get("arguments") or {}})
    return blocks


def _thinking(block: dict[str, Any], *, signed: bool) -> dict[str, Any]:
    signature = text_of(block.get("thinkingSignature")) if signed else ""
    if signature and block.get("redacted"):
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text_of(block.get("thinking")), "signature": signature}


def _call_id(value: object) -> str:
    """A call's id; on the Responses wire, pi writes the item's id behind it."""
    return text_of(value).partition("|")[0]


def _result(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": _call_id(message.get("toolCallId")),
        "content": _blocks(message.get("content")),
        "is_error": bool(message.get("isError")),
    }


def _settings(entries: list[Row]) -> dict[str, Any]:
    model = system = ""
    tools: dict[str, dict[str, Any]] = {}
    for _, entry in entries:
        message = fields(entry.get("message"))
        if message.get("role") == "assistant" and _is_signed(message):
            model = text_of(message.get("model")) or model
        if message.get("role") == "system":
            sections = (message.get("content"), *fields(message.get("sections")).values())
            system = "\n\n".join(text for section in sections if (text := text_of(section))) or system
            for tool in objects(message.get("toolsAdded")):
                tools[text_of(tool.get("name"))] = _tool(tool)
    return {"model": model, "system": system, "tools": list(tools.values())}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    schema = fields(tool.get("parameters")) or {"type": "object"}
    return {
        "name": text_of(tool.get("name")),
        "description": text_of(tool.get("description")),
        "input_schema": schema,
    }
