"""Reading the files that people have: request bodies of every dialect, documents of ours, and session files.

A session file is brought into the request that its program would send next. Lines that are no part of the
conversation (titles, snapshots, events for the screen) are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

from msgspec import Struct, structs

from segue.errors import TranscriptError
from segue.interop.convert import parse
from segue.interop.source import AUTO, SourceRequest, read_request
from segue.transcript.value_text import json_of

Row: TypeAlias = tuple[int, dict[str, Any]]
"""A line's number and its object."""


@final
class SessionFile(Struct, frozen=True):
    """A session file as a request body, and the line each of its messages came from."""

    form: str
    dialect: str
    body: dict[str, Any]
    lines: tuple[int, ...] = ()


def read_file(
    data: bytes, dialect: str = AUTO, *, model: str = "", to: str = ""
) -> tuple[SourceRequest, tuple[int, ...]]:
    """What a file holds, and the lines its messages stand in where it is a session file."""
    session = read_session_file(data) if dialect == AUTO else None
    if session is None:
        return read_request(parse(data), dialect, model=model, to=to), ()
    source = read_request(session.body, session.dialect, model=model, to=to)
    return structs.replace(source, form=session.form), session.lines


def read_session_file(data: bytes) -> SessionFile | None:
    """The session in a file; None if it is not a session file of a known program."""
    logs = _read_llm_logs(data)
    if logs is not None:
        return logs
    rows = _rows(data)
    if rows is None:
        return None
    return next((session for read in _READERS if (session := read(rows)) is not None), None)


def _rows(data: bytes) -> list[Row] | None:
    """The objects in a file of lines; None if it is not one. Only the last line may be cut off."""
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    rows: list[Row] = []
    for position, (number, line) in enumerate(lines):
        try:
            parsed = parse(line)
        except TranscriptError:
            if position == 0 or position < len(lines) - 1:
                return None
            continue
        if not isinstance(parsed, dict):
            return None
        rows.append((number, parsed))
    return rows or None


def _read_claude_code(rows: list[Row]) -> SessionFile | None:
    """Claude Code: one content block per line, lines of one reply share its message id."""
    messages: list[dict[str, Any]] = []
    lines: list[int] = []
    reply = ""
    model = ""
    known = False
    for number, row in rows:
        known = known or ("sessionId" in row and row.get("type") in ("user", "assistant"))
        if row.get("subtype") == "compact_boundary":  # what stands before is no longer sent
            messages, lines, reply = [], [], ""
        message = row.get("message")
        if row.get("type") not in ("user", "assistant") or not isinstance(message, Mapping):
            continue
        if row.get("isSidechain") or row.get("isApiErrorMessage") or "content" not in message:
            continue
        content = message["content"]
        reply_id = message.get("id") if row["type"] == "assistant" else ""
        if reply_id and reply_id == reply and isinstance(content, list):
            messages[-1]["content"].extend(content)
            continue
        reply = reply_id if isinstance(reply_id, str) and isinstance(content, list) else ""
        model = str(message.get("model") or model) if row["type"] == "assistant" else model
        copied = list(content) if isinstance(content, list) else content
        messages.append({"role": row["type"], "content": copied})
        lines.append(number)
    if not known:
        return None
    body: dict[str, Any] = {"messages": messages, "max_tokens": 4096}
    return SessionFile(
        "Claude Code session", "anthropic", {**body, "model": model} if model else body, tuple(lines)
    )


_CODEX: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_NOT_SENT: Final = frozenset({"ghost_snapshot", "other"})


def _read_codex(rows: list[Row]) -> SessionFile | None:
    """Codex rollouts: the items of the Responses wire, each in an envelope."""
    if not any(row.get("type") in _CODEX and isinstance(row.get("payload"), Mapping) for _, row in rows):
        return None
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    body: dict[str, Any] = {}
    for number, row in rows:
        payload = row.get("payload")
        if not isinstance(payload, dict):
            continue
        match row.get("type"):
            case "session_meta":
                body |= _codex_instructions(payload)
            case "turn_context" if isinstance(payload.get("model"), str):
                body["model"] = payload["model"]
            case "response_item" if payload.get("type") not in _NOT_SENT:
                items.append(payload)
                lines.append(number)
            case "compacted":
                items = _codex_replacement(payload)
                lines = [number] * len(items)
    return SessionFile("Codex rollout", "openai_responses", {**body, "input": items}, tuple(lines))


def _codex_instructions(meta: Mapping[str, Any]) -> dict[str, str]:
    instructions = meta.get("base_instructions") or meta.get("instructions")
    text = instructions.get("text") if isinstance(instructions, Mapping) else instructions
    return {"instructions": text} if isinstance(text, str) and text else {}


def _codex_replacement(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a compaction put in the place of everything before."""
    history = payload.get("replacement_history")
    if isinstance(history, list):
        return [item for item in history if isinstance(item, dict)]
    text = payload.get("message")
    if not isinstance(text, str) or not text:
        return []
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]


_READERS: Final[tuple[Callable[[list[Row]], SessionFile | None], ...]] = (_read_claude_code, _read_codex)


def _read_llm_logs(data: bytes) -> SessionFile | None:
    """`llm logs --json`: one object per reply, with the prompt and the tool results that it answered."""
    if not data.lstrip().startswith(b"["):
        return None
    try:
        rows = parse(data)
    except TranscriptError:
        return None
    if not rows or not all(isinstance(row, dict) and row.keys() >= _LOGGED for row in rows):
        return None
    rows = sorted(rows, key=lambda row: str(row.get("datetime_utc") or ""))
    wanted = rows[-1]["conversation_id"]
    rows = [row for row in rows if row["conversation_id"] == wanted]
    messages: list[dict[str, Any]] = []
    system = next((row["system"] for row in rows if row.get("system")), "")
    if system:
        messages.append({"role": "system", "content": system})
    tools: dict[str, dict[str, Any]] = {}
    for row in rows:
        messages += _logged_exchange(row)
        for tool in row.get("tools") or ():
            tools[str(tool.get("name"))] = _logged_tool(tool)
    body: dict[str, Any] = {"model": str(rows[-1].get("model") or ""), "messages": messages}
    if tools:
        body["tools"] = list(tools.values())
    return SessionFile("llm log", "openai_chat", body)


_LOGGED: Final = frozenset({"prompt", "response", "conversation_id"})


def _logged_exchange(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": result.get("tool_call_id") or "",
            "content": str(result.get("output") or ""),
        }
        for result in row.get("tool_results") or ()
    ]
    if row.get("prompt"):
        messages.append({"role": "user", "content": row["prompt"]})
    reply: dict[str, Any] = {"role": "assistant", "content": row.get("response") or None}
    calls = [_logged_call(call) for call in row.get("tool_calls") or ()]
    if calls:
        reply["tool_calls"] = calls
    if calls or reply["content"]:
        messages.append(reply)
    return messages


def _logged_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json_of(arguments if arguments is not None else {})
    return {
        "id": call.get("tool_call_id") or "",
        "type": "function",
        "function": {"name": call.get("name") or "", "arguments": text},
    }


def _logged_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool.get("input_schema")
    if isinstance(schema, str):
        schema = parse(schema)
    function: dict[str, Any] = {"name": tool.get("name") or "", "description": tool.get("description") or ""}
    return {"type": "function", "function": {**function, "parameters": schema or {"type": "object"}}}
