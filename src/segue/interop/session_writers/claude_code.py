"""Claude Code: a tree of rows, one for each block; the rows of one reply share its message id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.conversation.blocks import Media
from segue.interop.session_readers.session_file import image_block, text_block, text_of
from segue.interop.session_writers.steps import ModelReply, Prompt, StoredCall
from segue.interop.session_writers.written_session import folder_name, moments, part_id, short_id, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.interop.session_writers.written_session import SessionPlan

_VERSION = "2.1.326"
_NO_MODEL = "<synthetic>"


@final
class ClaudeCodeWriter:
    """Rows with the envelope that the program writes itself."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        return [{"type": "ai-title", "aiTitle": plan.title, "sessionId": plan.id}] if plan.title else []

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        return [
            {**row, "sessionId": plan.id} if "sessionId" in row else row
            for row in rows
            if row.get("type") != "last-prompt"
        ]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        return home / folder_name(plan.folder) / f"{plan.id}.jsonl"

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return _Rows(plan, after).written()


class _Rows:
    def __init__(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> None:
        spoken = [
            row for row in after if row.get("type") in ("user", "assistant") and not row.get("isSidechain")
        ]
        self._plan = plan
        self._parent = text_of(spoken[-1].get("uuid")) or None if spoken else None
        self._rows: list[dict[str, Any]] = []
        self._moments = moments(plan.began)

    def written(self) -> list[dict[str, Any]]:
        if self._plan.note:
            self._add("user", {"role": "user", "content": self._plan.note}, isMeta=True)
        prompt = ""
        for number, step in enumerate(self._plan.steps):
            if type(step) is Prompt:
                prompt = step.text
                self._add("user", {"role": "user", "content": _prompt(step)})
            elif type(step) is ModelReply:
                self._reply(step, number)
        leaf = {
            "type": "last-prompt",
            "lastPrompt": prompt[:200],
            "leafUuid": self._parent,
            "sessionId": self._plan.id,
        }
        return [*self._rows, leaf] if self._rows else []

    def _reply(self, reply: ModelReply, number: int) -> None:
        blocks = [text_block(reply.text)] if reply.text else []
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in reply.calls
        ]
        for block in blocks:
            self._add("assistant", _message(block, reply, f"msg_{short_id(self._plan, number)[:24]}"))
        if reply.calls:
            self._add("user", {"role": "user", "content": [_result(call) for call in reply.calls]})

    def _add(self, kind: str, message: dict[str, Any], **more: Any) -> None:
        uuid = part_id(self._plan, "row", self._parent, len(self._rows))
        self._rows.append(
            {
                "parentUuid": self._parent,
                "isSidechain": False,
                "type": kind,
                "message": message,
                **more,
                "uuid": uuid,
                "timestamp": stamp(next(self._moments)),
                "userType": "external",
                "cwd": self._plan.folder,
                "sessionId": self._plan.id,
                "version": _VERSION,
            }
        )
        self._parent = uuid


def _message(block: dict[str, Any], reply: ModelReply, message_id: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model or _NO_MODEL,
        "content": [block],
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _prompt(prompt: Prompt) -> str | list[dict[str, Any]]:
    if not prompt.media:
        return prompt.text
    return [
        image_block(part.mime, part.data) if type(part) is Media else text_block(part.text)
        for part in prompt.parts
        if type(part) is Media or part.text
    ]


def _result(call: StoredCall) -> dict[str, Any]:
    shown = [text_block(call.output)] if call.output else []
    images = [image_block(media.mime, media.data) for media in call.media]
    content: Any = [*shown, *images] if images else call.output
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": call.failed}
