"""llm: the output of `llm logs --json`, and its database of logs. The newest conversation is read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any, Final

from segue.errors import TranscriptError
from segue.interop.agents.session_file import SessionFile, chat_call, fields, json_text, objects, text_of

DATABASE: Final = b"SQLite format 3\x00"
"""What a database begins with."""
_LOGGED: Final = frozenset({"prompt", "response", "conversation_id"})


def read_llm_logs(document: object) -> SessionFile | None:
    """One object per reply, with the prompt and the tool results that it answered."""
    rows = objects(document)
    if not rows or rows != document or not all(row.keys() >= _LOGGED for row in rows):
        return None
    rows = sorted(rows, key=lambda row: text_of(row.get("datetime_utc")))
    wanted = rows[-1]["conversation_id"]
    rows = [row for row in rows if row["conversation_id"] == wanted]
    messages: list[dict[str, Any]] = []
    system = next((text for row in rows if (text := _with_fragments(row, "system"))), "")
    if system:
        messages.append({"role": "system", "content": system})
    tools: dict[str, dict[str, Any]] = {}
    for row in rows:
        messages += _exchange(row)
        for tool in objects(row.get("tools")):
            tools[text_of(tool.get("name"))] = _tool(tool)
    body: dict[str, Any] = {"model": text_of(rows[-1].get("model")), "messages": messages}
    if tools:
        body["tools"] = list(tools.values())
    return SessionFile("llm log", "openai_chat", body)


def _with_fragments(row: dict[str, Any], name: str) -> str:
    """A prompt after the fragments that were sent with it."""
    fragments = [json_text(fragment.get("content")) for fragment in objects(row.get(f"{name}_fragments"))]
    return "\n".join(text for text in (*fragments, text_of(row.get(name))) if text)


def _exchange(row: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": text_of(result.get("tool_call_id")),
            "content": json_text(result.get("output")) or json_text(result.get("exception")),
        }
        for result in objects(row.get("tool_results"))
    ]
    prompt = _with_fragments(row, "prompt")
    if prompt:
        messages.append({"role": "user", "content": prompt})
    reply: dict[str, Any] = {"role": "assistant", "content": text_of(row.get("response")) or None}
    calls = [
        chat_call(call.get("tool_call_id"), call.get("name"), call.get("arguments"))
        for call in objects(row.get("tool_calls"))
    ]
    if calls:
        reply["tool_calls"] = calls
    if text_of(row.get("reasoning")):
        reply["reasoning_content"] = row["reasoning"]
    if calls or reply["content"]:
        messages.append(reply)
    return messages


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": text_of(tool.get("name")), "description": text_of(tool.get("description"))}
    schema = fields(_parsed(tool.get("input_schema"))) or {"type": "object"}
    return {"type": "function", "function": {**function, "parameters": schema}}


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


_ROWS: Final = 100_000
_STEPS: Final = 100
"""A foreign database may define anything under the name of a table: reading it ends after so many times a million steps."""


def read_llm_database(data: bytes) -> SessionFile:
    """The rows of the database in the form that `llm logs --json` has."""
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            # Marked as written without a write-ahead log: a database in memory cannot have one beside it.
            database.deserialize(data[:18] + b"\x01\x01" + data[20:])
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(len(data), 1_000_000))
            database.row_factory = sqlite3.Row
            database.text_factory = _replacing
            steps = iter(range(_STEPS))
            database.set_progress_handler(lambda: next(steps, None) is None, 1_000_000)
            rows = _logged_rows(database)
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise TranscriptError(
            f"This database cannot be read as logs of llm: {error}.",
            code="unknown_database",
            path="the file",
            hint="Write the conversation with: llm logs --json",
        ) from error
    session = read_llm_logs(rows)
    if session is None:
        raise TranscriptError(
            "This database holds no conversation of llm.",
            code="unknown_database",
            path="responses",
            hint="Check that it is the right file: llm logs path",
        )
    return session


def _logged_rows(database: sqlite3.Connection) -> list[dict[str, Any]]:
    newest = _select(database, "SELECT * FROM responses ORDER BY datetime_utc DESC, id DESC LIMIT 1")
    if not newest:
        return []
    wanted = newest[0].get("conversation_id")
    rows = _select(
        database, "SELECT * FROM responses WHERE conversation_id IS ? ORDER BY datetime_utc, id", wanted
    )
    known = {row["name"] for row in _select(database, "SELECT name FROM sqlite_master")}
    for row in rows:
        for name, table, query in _PARTS:
            if table in known:
                row[name] = _select(database, query, row.get("id"))
    return rows


_FRAGMENTS: Final = 'SELECT content FROM {0} JOIN fragments ON fragments.id = {0}.fragment_id WHERE response_id = ? ORDER BY "order"'
_PARTS: Final = (
    ("tool_calls", "tool_calls", "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id"),
    ("tool_results", "tool_results", "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id"),
    (
        "tools",
        "tool_responses",
        "SELECT tools.* FROM tool_responses JOIN tools ON tools.id = tool_responses.tool_id WHERE response_id = ?",
    ),
    ("prompt_fragments", "prompt_fragments", _FRAGMENTS.format("prompt_fragments")),
    ("system_fragments", "system_fragments", _FRAGMENTS.format("system_fragments")),
)


def _select(database: sqlite3.Connection, query: str, *values: object) -> list[dict[str, Any]]:
    rows = database.execute(query, values).fetchmany(_ROWS)
    return [{name: _readable(row[name]) for name in row.keys()} for row in rows]  # noqa: SIM118 - a Row iterates its values


def _replacing(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _readable(value: Any) -> Any:
    return _replacing(value) if isinstance(value, bytes) else value
