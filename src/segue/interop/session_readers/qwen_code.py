"""Qwen Code: a tree of lines like Claude Code's, whose messages hold the parts of Gemini's wire."""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Row,
    SessionFile,
    current_branch,
    fields,
    objects,
    text_of,
)

_ROLES = {"user": "user", "assistant": "model", "tool_result": "user"}


def read_qwen_code(rows: list[Row]) -> SessionFile | None:
    spoken = [row for row in rows if _is_message(row[1])]
    if not spoken:
        return None
    contents: list[dict[str, Any]] = []
    lines: list[int] = []
    branch = current_branch(rows, spoken[-1], id_key="uuid", parent_key="parentUuid")
    for number, row in branch:
        if row.get("subtype") == "chat_compression":
            contents = objects(fields(row.get("systemPayload")).get("compressedHistory"))
            lines = [number] * len(contents)
        elif _is_message(row):
            parts = objects(row["message"]["parts"])
            contents.append({"role": _ROLES[row["type"]], "parts": parts})
            lines.append(number)
    return SessionFile("Qwen Code session", "gemini", {"contents": contents}, tuple(lines))


def _is_message(row: dict[str, Any]) -> bool:
    return (
        text_of(row.get("type")) in _ROLES
        and "sessionId" in row
        and isinstance(fields(row.get("message")).get("parts"), list)
    )
