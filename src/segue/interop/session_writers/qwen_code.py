"""Qwen Code: a tree of rows with Gemini's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from segue.interop.session_readers.session_file import text_of
from segue.interop.session_writers.gemini_cli import call_part, prompt_parts, response_part
from segue.interop.session_writers.steps import ModelReply, Prompt
from segue.interop.session_writers.written_session import folder_name, moments, part_id, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.interop.session_writers.written_session import SessionPlan

_VERSION: Final = "0.24.4"


@final
class QwenCodeWriter:
    """Rows like Claude Code's."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        del plan
        return []

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        return [{**row, "sessionId": plan.id} if "sessionId" in row else row for row in rows]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        return home / folder_name(plan.folder) / "chats" / f"{plan.id}.jsonl"

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        linked = [row for row in after if text_of(row.get("uuid"))]
        parent: str | None = text_of(linked[-1]["uuid"]) if linked else None
        times = moments(plan.began)
        rows: list[dict[str, Any]] = []

        def add(kind: str, role: str, parts: list[dict[str, Any]], **more: Any) -> None:
            nonlocal parent
            uuid = part_id(plan, "row", parent, len(rows))
            message = {"role": role, "parts": parts}
            row = {"uuid": uuid, "parentUuid": parent, "sessionId": plan.id, "timestamp": stamp(next(times))}
            rows.append(
                {**row, "type": kind, "cwd": plan.folder, "version": _VERSION, **more, "message": message}
            )
            parent = uuid

        note = plan.note
        for step in plan.steps:
            if type(step) is Prompt:
                add("user", "user", prompt_parts(step, note))
                note = ""
            elif type(step) is ModelReply:
                said = [{"text": step.text}] if step.text else []
                add("assistant", "model", [*said, *map(call_part, step.calls)], model=step.model or "unknown")
                for call in step.calls:
                    add("tool_result", "user", [response_part(call), *prompt_parts(Prompt(call.media))])
        return rows
