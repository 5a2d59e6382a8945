"""`opencode export`: messages of parts, where one reply may hold several steps with their calls and results."""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Said,
    SessionFile,
    fields,
    image_block,
    json_text,
    messages_session,
    objects,
    text_block,
    text_of,
)

_WIRE = "anthropic"


def read_opencode(document: object) -> SessionFile | None:
    session = fields(document)
    recorded = objects(session.get("messages"))
    if not isinstance(session.get("info"), dict) or not all("info" in m and "parts" in m for m in recorded):
        return None
    reverted = fields(session["info"].get("revert")).get("messageID")
    said: list[Said] = []
    model = ""
    for place, message in enumerate(recorded):
        info, parts, wrote = fields(message["info"]), objects(message["parts"]), ""
        if reverted and info.get("id") == reverted:
            break
        if info.get("role") == "user":
            if _compacts(parts, recorded[place + 1 : place + 2]):
                said = []
            added = [{"role": "user", "content": _prompt(parts)}]
        elif info.get("role") == "assistant":
            signed = info.get("providerID") == _WIRE
            wrote = text_of(info.get("modelID")) if signed else ""
            model = wrote or model
            added = _steps(parts, signed=signed)
        else:
            continue
        said += [
            Said(message, model=wrote if message["role"] == "assistant" else None)
            for message in added
            if message["content"]
        ]
    return messages_session("opencode session", said, model=model)


def _compacts(parts: list[dict[str, Any]], following: list[dict[str, Any]]) -> bool:
    """Whether a message asks for the summary that takes the place of everything before."""
    asked = any(part.get("type") == "compaction" for part in parts)
    return asked and any(fields(message["info"]).get("summary") is True for message in following)


def _prompt(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        match part.get("type"):
            case "text" if not part.get("ignored") and part.get("text"):
                blocks.append(text_block(text_of(part["text"])))
            case "file":
                blocks += _file(part)
            case "compaction":
                blocks.append(text_block("Summarise our conversation so far."))
    return blocks


def _file(part: dict[str, Any]) -> list[dict[str, Any]]:
    mime, url = text_of(part.get("mime")), text_of(part.get("url"))
    head, _, data = url.partition(";base64,")
    if mime.startswith("image/") and head.startswith("data:") and data:
        return [image_block(mime, data)]
    name = text_of(part.get("filename")) or mime
    return [text_block(f"[Attached file: {name}]")] if name else []


def _steps(parts: list[dict[str, Any]], *, signed: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in (*parts, {"type": "step-start"}):
        match part.get("type"):
            case "step-start":
                messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
                blocks, results = [], []
            case "text" if part.get("text"):
                blocks.append(text_block(text_of(part["text"])))
            case "reasoning":
                blocks.append(_thinking(part, signed=signed))
            case "tool":
                call, result = _call(part)
                blocks.append(call)
                results += result
    return messages


def _thinking(part: dict[str, Any], *, signed: bool) -> dict[str, Any]:
    given = fields(fields(part.get("metadata")).get(_WIRE)) if signed else {}
    redacted = text_of(given.get("redactedData"))
    if redacted:
        return {"type": "redacted_thinking", "data": redacted}
    text, signature = text_of(part.get("text")), text_of(given.get("signature"))
    return {"type": "thinking", "thinking": text, "signature": signature}


def _call(part: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A call, and its result if it has one."""
    state = fields(part.get("state"))
    call_id = text_of(part.get("callID"))
    call = {
        "type": "tool_use",
        "id": call_id,
        "name": text_of(part.get("tool")),
        "input": state.get("input") or {},
    }
    match state.get("status"):
        case "completed":
            content = [text_block(json_text(state.get("output")))]
            for file in objects(state.get("attachments")):
                content += _file(file)
            return call, [{"type": "tool_result", "tool_use_id": call_id, "content": content}]
        case "error":
            error = json_text(state.get("error"))
            return call, [{"type": "tool_result", "tool_use_id": call_id, "content": error, "is_error": True}]
        case _:
            return call, []
