"""Gemini CLI: calls stand in a reply's content and results in rows of their own, the one form that it resumes again and again."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from segue.conversation.blocks import Media
from segue.conversation.json_text import read_json
from segue.errors import TranscriptError
from segue.interop.session_readers.session_file import fields, text_of
from segue.interop.session_writers.steps import ModelReply, Prompt, StoredCall
from segue.interop.session_writers.written_session import moments, part_id, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.interop.session_writers.written_session import SessionPlan


def prompt_parts(prompt: Prompt, note: str = "") -> list[dict[str, Any]]:
    parts = [
        {"inlineData": {"mimeType": part.mime, "data": part.data}}
        if type(part) is Media
        else {"text": part.text}
        for part in prompt.parts
    ]
    return [*([{"text": note}] if note else []), *parts]


def call_part(call: StoredCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}


def response_part(call: StoredCall) -> dict[str, Any]:
    response = {"error" if call.failed else "output": call.output}
    return {"functionResponse": {"id": call.id, "name": call.name, "response": response}}


@final
class GeminiCliWriter:
    """Rows without `toolCalls`."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        digest = sha256(plan.folder.encode()).hexdigest()
        began = stamp(plan.began)
        return [
            {
                "sessionId": plan.id,
                "projectHash": digest,
                "startTime": began,
                "lastUpdated": began,
                "kind": "main",
            }
        ]

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        began = stamp(plan.began)
        return [
            {**row, "sessionId": plan.id, "startTime": began} if "sessionId" in row else row for row in rows
        ]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        name = f"session-{plan.began:%Y-%m-%dT%H-%M}-{plan.id[:8]}.jsonl"
        return home / _slug(plan.folder, home) / "chats" / name

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        times = moments(plan.began)
        rows: list[dict[str, Any]] = []

        def add(kind: str, content: list[dict[str, Any]], **more: Any) -> None:
            row_id = part_id(plan, "row", len(after), len(rows))
            rows.append(
                {"id": row_id, "timestamp": stamp(next(times)), "type": kind, "content": content, **more}
            )

        note = plan.note
        for step in plan.steps:
            if type(step) is Prompt:
                add("user", prompt_parts(step, note))
                note = ""
            elif type(step) is ModelReply:
                said = [{"text": step.text}] if step.text else []
                add(
                    "gemini",
                    [*said, *map(call_part, step.calls)],
                    **({"model": step.model} if step.model else {}),
                )
                if step.calls:
                    images = [part for call in step.calls for part in prompt_parts(Prompt(call.media))]
                    add("user", [*map(response_part, step.calls), *images])
        # By this it finds the latest session.
        return [*rows, {"$set": {"lastUpdated": stamp(next(times))}}] if rows else []


def _slug(folder: str, home: Path) -> str:
    """The name of a project's folder: as the program's list has it, else made from the folder's name.

    A new name is not written into the list: the program does that itself when it is started in the folder.
    """
    known: dict[str, Any] = {}
    with suppress(OSError, TranscriptError):
        listed = fields(read_json((home.parent / "projects.json").read_bytes()))
        known = fields(listed.get("projects"))
    found = text_of(known.get(folder))
    if found and found == Path(found).name:
        return found
    base = re.sub(r"[^a-z0-9]+", "-", Path(folder).name.lower()).strip("-") or "project"
    taken = {text_of(name) for name in known.values()}
    return next(
        name for name in chain([base], (f"{base}-{number}" for number in count(1))) if name not in taken
    )
