"""Qwen Code: a tree of lines like Claude Code's. It keeps Gemini's parts, and sends them over the Chat wire."""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    chat_call,
    current_branch,
    fields,
    json_text,
    objects,
    session_of,
    text_of,
)

_SPEAKERS = frozenset({"user", "assistant", "tool_result"})


def read_qwen_code(rows: list[Row]) -> SessionFile | None:
    branch = _branch(rows)
    if not branch:
        return None
    said: list[Said] = []
    model = ""
    for number, row in branch:
        if row.get("subtype") == "chat_compression":  # it takes the place of everything before
            history = objects(fields(row.get("systemPayload")).get("compressedHistory"))
            said = [Said(message, number) for content in history for message in _messages(content)]
        elif _is_message(row):
            model = text_of(row.get("model")) or model
            said += [Said(message, number) for message in _messages(row["message"])]
    return session_of("Qwen Code session", "openai_chat", said, model=model)


def sent_rows(rows: list[Row]) -> list[Row]:
    """The rows behind the last compaction whose messages the next request holds."""
    branch = _branch(rows)
    cut = max(
        (at for at, (_, row) in enumerate(branch) if row.get("subtype") == "chat_compression"), default=-1
    )
    return [row for row in branch[cut + 1 :] if _is_message(row[1])]


def _branch(rows: list[Row]) -> list[Row]:
    spoken = [row for row in rows if _is_message(row[1])]
    return current_branch(rows, spoken[-1], id_key="uuid", parent_key="parentUuid") if spoken else []


def _is_message(row: dict[str, Any]) -> bool:
    return (
        text_of(row.get("type")) in _SPEAKERS
        and "sessionId" in row
        and isinstance(fields(row.get("message")).get("parts"), list)
    )


def _messages(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = objects(content.get("parts"))
    if content.get("role") == "model":
        return _reply(parts)
    results = [_result(fields(part["functionResponse"])) for part in parts if "functionResponse" in part]
    prompt = [block for part in parts for block in _prompt(part)]
    match prompt:
        case []:
            return results
        case [{"type": "text", "text": text}]:
            return [*results, {"role": "user", "content": text}]
        case _:
            return [*results, {"role": "user", "content": prompt}]


def _prompt(part: dict[str, Any]) -> list[dict[str, Any]]:
    text, media = text_of(part.get("text")), fields(part.get("inlineData"))
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    if media:
        url = f"data:{text_of(media.get('mimeType'))};base64,{text_of(media.get('data'))}"
        blocks.append({"type": "image_url", "image_url": {"url": url}})
    return blocks


def _reply(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = "".join(text_of(part.get("text")) for part in parts if not part.get("thought"))
    thought = "".join(text_of(part.get("text")) for part in parts if part.get("thought"))
    calls = [
        chat_call(call.get("id"), call.get("name"), call.get("args"))
        for part in parts
        if (call := fields(part.get("functionCall")))
    ]
    if not text and not calls:
        return []
    reply = {"role": "assistant", "content": text or None, "tool_calls": calls, "reasoning_content": thought}
    return [{name: value for name, value in reply.items() if value or name == "content"}]


def _result(response: dict[str, Any]) -> dict[str, Any]:
    given = fields(response.get("response"))
    output = given.get("output", given.get("error", given))
    return {"role": "tool", "tool_call_id": text_of(response.get("id")), "content": json_text(output)}
