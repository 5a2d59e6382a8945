"""pi: a tree of entries. Ids are not cleaned, and replies need counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from segue.conversation.blocks import Media
from segue.interop.session_readers.session_file import text_block, text_of
from segue.interop.session_writers.steps import ModelReply, Prompt, StoredCall
from segue.interop.session_writers.written_session import milliseconds, moments, short_id, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.interop.session_writers.written_session import SessionPlan

_COUNTS: Final = ("input", "output", "cacheRead", "cacheWrite")


@final
class PiWriter:
    """Entries whose provider is none that pi knows, so that no seal is looked for."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        return [
            {
                "type": "session",
                "version": 3,
                "id": plan.id,
                "timestamp": stamp(plan.began),
                "cwd": plan.folder,
            }
        ]

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        return [{**row, "id": plan.id} if row.get("type") == "session" else row for row in rows]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        folder = plan.folder.strip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
        return home / f"--{folder}--" / f"{plan.began:%Y-%m-%dT%H-%M-%S}-000Z_{plan.id}.jsonl"

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return _Rows(plan, after).written()


class _Rows:
    def __init__(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> None:
        entries = [row for row in after if row.get("type") != "session"]
        self._plan = plan
        self._parent = text_of(entries[-1].get("id")) or None if entries else None
        self._taken = {text_of(row.get("id")) for row in entries}
        self._rows: list[dict[str, Any]] = []
        self._moments = moments(plan.began)

    def written(self) -> list[dict[str, Any]]:
        if self._plan.note:
            note = {"customType": "segue", "content": self._plan.note, "display": False}
            self._add("custom_message", **note)
        for step in self._plan.steps:
            if type(step) is Prompt:
                blocks = [
                    _image(part) if type(part) is Media else text_block(part.text) for part in step.parts
                ]
                self._message({"role": "user", "content": blocks})
            elif type(step) is ModelReply:
                self._reply(step)
        return self._rows

    def _reply(self, reply: ModelReply) -> None:
        blocks = [text_block(reply.text)] if reply.text else []
        blocks += [
            {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in reply.calls
        ]
        self._message(
            {
                "role": "assistant",
                "content": blocks,
                "api": "segue",
                "provider": "segue",
                "model": reply.model or "unknown",
                "usage": _no_counts(),
                "stopReason": "toolUse" if reply.calls else "stop",
            }
        )
        for call in reply.calls:
            self._message(_result(call))

    def _message(self, message: dict[str, Any]) -> None:
        self._add(
            "message", message={**message, "timestamp": milliseconds(self._plan.began) + len(self._rows)}
        )

    def _add(self, kind: str, **more: Any) -> None:
        number = 0
        while (entry := short_id(self._plan, len(self._rows), number)[:8]) in self._taken:
            number += 1
        self._taken.add(entry)
        row = {
            "type": kind,
            "id": entry,
            "parentId": self._parent,
            "timestamp": stamp(next(self._moments)),
            **more,
        }
        self._rows.append(row)
        self._parent = entry


def _image(media: Media) -> dict[str, Any]:
    return {"type": "image", "data": media.data, "mimeType": media.mime}


def _result(call: StoredCall) -> dict[str, Any]:
    shown = [text_block(call.output)] if call.output or not call.media else []
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [*shown, *map(_image, call.media)],
        "isError": call.failed,
    }


def _no_counts() -> dict[str, Any]:
    cost = dict.fromkeys((*_COUNTS, "total"), 0)
    return {**dict.fromkeys((*_COUNTS, "totalTokens"), 0), "cost": cost}
