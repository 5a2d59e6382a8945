"""Copilot CLI: a chain of events. The events of subagents, and those for the screen, are not part of the request."""

from __future__ import annotations

from typing import Any

from segue.interop.agents.session_file import (
    Row,
    Said,
    SessionFile,
    current_branch,
    fields,
    json_text,
    objects,
    session_of,
    text_of,
)

_WIRE = "openai-responses"


def read_copilot(rows: list[Row]) -> SessionFile | None:
    if not any(row.get("type") == "session.start" and isinstance(row.get("data"), dict) for _, row in rows):
        return None
    said: list[Said] = []
    body: dict[str, Any] = {}
    for number, row in current_branch(rows, rows[-1], id_key="id", parent_key="parentId"):
        data = fields(row.get("data"))
        if data.get("parentToolCallId"):
            continue
        added: list[dict[str, Any]] = []
        match row.get("type"):
            case "system.message":
                body |= {"instructions": text_of(data.get("content"))}
            case "user.message":
                text = text_of(data.get("transformedContent")) or text_of(data.get("content"))
                added = [_message("user", "input_text", text)]
            case "assistant.message":
                added = _reply(data)
                if fields(data.get("reasoningBlocks")).get("provider") == _WIRE:
                    body |= {"model": text_of(data.get("model"))}
            case "tool.execution_complete":
                added = [_result(data)]
        said += [Said(item, number) for item in added]
    return session_of("Copilot CLI session", "openai_responses", said, **body)


def _message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _reply(data: dict[str, Any]) -> list[dict[str, Any]]:
    reasoning = fields(data.get("reasoningBlocks"))
    thought = text_of(data.get("reasoningText"))
    items: list[dict[str, Any]] = []
    if reasoning.get("provider") == _WIRE:
        items += [block for block in objects(reasoning.get("blocks")) if block.get("type") == "reasoning"]
    elif thought:
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
    text = text_of(data.get("content"))
    if text:
        items.append(_message("assistant", "output_text", text))
    items += [
        {
            "type": "function_call",
            "call_id": text_of(call.get("toolCallId")),
            "name": text_of(call.get("name")),
            "arguments": json_text(call.get("arguments") or {}),
        }
        for call in objects(data.get("toolRequests"))
    ]
    return items


def _result(data: dict[str, Any]) -> dict[str, Any]:
    given = data.get("result") if data.get("success") else data.get("error") or data.get("result")
    found = fields(given)
    output = found.get("content", found.get("message")) if found else given
    return {
        "type": "function_call_output",
        "call_id": text_of(data.get("toolCallId")),
        "output": json_text(output),
    }
