"""Gemini CLI: lines that add, replace or rewind messages; earlier versions wrote one JSON object.

A call's result is recorded twice, with the call and in a message of its own: one of them is kept.
"""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    objects,
    session_of,
    text_of,
)


def read_gemini_cli(rows: list[Row]) -> SessionFile | None:
    if not any("projectHash" in row and "sessionId" in row for _, row in rows):
        return None
    recorded: dict[str, Row] = {}
    for number, row in rows:
        changes = fields(row.get("$set"))
        if isinstance(messages := changes.get("messages", row.get("messages")), list):
            recorded = {}
            for position, message in enumerate(objects(messages)):
                recorded[text_of(message.get("id")) or f"{number}.{position}"] = (number, message)
        elif isinstance(row.get("$rewindTo"), str):
            recorded = _rewound(recorded, row["$rewindTo"])
        elif row.get("type") in ("user", "gemini"):
            key = text_of(row.get("id")) or f"{number}"
            first, _ = recorded.get(key, (number, row))
            recorded[key] = (first, row)  # a reply is written again when its calls have run
    return session_of("Gemini CLI session", "gemini", _said(list(recorded.values())))


def _rewound(recorded: dict[str, Row], message_id: str) -> dict[str, Row]:
    """The messages before the one with the id."""
    keys = list(recorded)
    end = keys.index(message_id) if message_id in recorded else len(keys)
    return {key: recorded[key] for key in keys[:end]}


def _said(messages: list[Row]) -> list[Said]:
    answered = {
        text_of(fields(part.get("functionResponse")).get("id"))
        for _, message in messages
        if message.get("type") == "user"
        for part in objects(message.get("content"))
    }
    said: list[Said] = []
    for number, message in messages:
        match message.get("type"):
            case "user":
                added = [{"role": "user", "parts": _parts(message.get("content"))}]
            case "gemini":
                added = _reply(message, answered)
            case _:  # notes for the screen
                added = []
        model = text_of(message.get("model"))
        said += [
            Said(content, number, model if content["role"] == "model" else None)
            for content in added
            if content["parts"]
        ]
    return said


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        return [content]
    if isinstance(content, list):
        return [
            {"text": part} if isinstance(part, str) else part
            for part in content
            if isinstance(part, str | dict)
        ]
    return [{"text": content}] if isinstance(content, str) and content else []


def _reply(message: dict[str, Any], answered: set[str]) -> list[dict[str, Any]]:
    """A reply, and the results that no other message holds."""
    calls = objects(message.get("toolCalls"))
    thoughts = "".join(_thought(thought) for thought in objects(message.get("thoughts")))
    parts: list[dict[str, Any]] = [{"text": thoughts, "thought": True}] if thoughts else []
    parts += _parts(message.get("content"))
    recorded = {text_of(fields(part.get("functionCall")).get("id")) for part in parts}
    parts += [
        {"functionCall": {name: call[name] for name in ("id", "name", "args") if name in call}}
        for call in calls
        if text_of(call.get("id")) not in recorded - {""}
    ]
    results = [
        part
        for call in calls
        if text_of(call.get("id")) not in answered - {""}
        for part in _parts(call.get("result"))
    ]
    return [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]


def _thought(thought: dict[str, Any]) -> str:
    subject, description = text_of(thought.get("subject")), text_of(thought.get("description"))
    return f"**{subject}**\n{description}\n" if subject else description
