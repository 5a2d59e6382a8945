"""Codex rollouts: the items of the Responses wire, each in an envelope."""

from __future__ import annotations

from typing import Any, Final

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    objects,
    session_of,
    text_of,
)

_TYPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_NOT_SENT: Final = frozenset({"ghost_snapshot", "other"})


def read_codex(rows: list[Row]) -> SessionFile | None:
    if not any(
        text_of(row.get("type")) in _TYPES and isinstance(row.get("payload"), dict) for _, row in rows
    ):
        return None
    said: list[Said] = []
    body = {"model": ""}
    for number, row in rows:
        payload = row.get("payload")
        if not isinstance(payload, dict):
            continue
        match row.get("type"):
            case "session_meta":
                body |= _instructions(payload)
            case "turn_context" if isinstance(payload.get("model"), str):
                body["model"] = payload["model"]
            case "response_item" if text_of(payload.get("type")) not in _NOT_SENT:
                said.append(Said(payload, number, body["model"]))
            case "compacted":
                said = [Said(item, number, body["model"]) for item in _replacement(payload)]
    return session_of("Codex rollout", "openai_responses", said, **body)


def _instructions(meta: dict[str, Any]) -> dict[str, str]:
    given = meta.get("base_instructions") or meta.get("instructions")
    text = text_of(fields(given).get("text")) or text_of(given)
    return {"instructions": text} if text else {}


def _replacement(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """What a compaction put in the place of everything before."""
    if isinstance(payload.get("replacement_history"), list):
        return objects(payload["replacement_history"])
    text = text_of(payload.get("message"))
    if not text:
        return []
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
