"""Codex rollouts: items of the Responses wire, each in an envelope, which are sent, and events, which are shown.

Codex closes calls itself and drops results without one; repeated or long ids and thoughts without a seal kill a session.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, final

from segue.conversation.blocks import Media
from segue.interop.agents.session_draft import (
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    at,
    id_fault,
    orphan_fault,
    put,
    rename_calls,
)
from segue.interop.agents.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    milliseconds,
    moments,
    objects,
    part_id,
    session_of,
    stamp,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from segue.interop.agents.session_draft import SessionDraft
    from segue.interop.agents.session_file import SessionPlan

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


# Sessions written for it


_VERSION: Final = "0.169.0"
_PATCH: Final = "apply_patch"
_SHELL: Final = "exec_command"


@final
class CodexWriter:
    """Numbered lines, as newer versions write them."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        # Without `model_provider` the one that is configured answers; any other name would be refused.
        meta = {
            "id": plan.id,
            "timestamp": stamp(plan.began),
            "cwd": plan.folder,
            "originator": "codex_cli_rs",
            "cli_version": _VERSION,
            "source": "cli",
            "history_mode": "paginated",
        }
        return [{"timestamp": stamp(plan.began), "ordinal": 0, "type": "session_meta", "payload": meta}]

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        def renamed(row: dict[str, Any]) -> dict[str, Any]:
            if row.get("type") != "session_meta":
                return row
            payload = {name: value for name, value in row["payload"].items() if name != "model_provider"}
            return {
                **row,
                "payload": {
                    **payload,
                    "id": plan.id,
                    **({"session_id": plan.id} if "session_id" in payload else {}),
                },
            }

        return [renamed(row) for row in rows]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        began = plan.began
        folder = home / f"{began:%Y}" / f"{began:%m}" / f"{began:%d}"
        return folder / f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{plan.id}.jsonl"

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return _Rows(plan, after).written()


class _Rows:
    def __init__(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> None:
        numbers = [row["ordinal"] for row in after if type(row.get("ordinal")) is int]
        self._ordinal = numbers[-1] + 1 if numbers else None
        self._plan = plan
        self._rows: list[dict[str, Any]] = []
        self._moments = moments(plan.began)
        self._turn = ""

    def written(self) -> list[dict[str, Any]]:
        if self._plan.note:
            self._item({"type": "message", "role": "developer", "content": [_text(self._plan.note)]})
        for number, step in enumerate(self._plan.steps):
            if type(step) is Prompt:
                self._end_turn()
                self._begin_turn(number)
                self._prompt(step)
            elif type(step) is ModelReply:
                if not self._turn:
                    self._begin_turn(number)
                self._reply(step)
        self._end_turn()
        return self._rows

    def _prompt(self, prompt: Prompt) -> None:
        content = [_image(part) if type(part) is Media else _text(part.text) for part in prompt.parts]
        self._item({"type": "message", "role": "user", "content": content})
        shown = [{"type": "text", "text": prompt.text, "text_elements": []}]
        self._shown({"type": "UserMessage", "id": self._id("user"), "content": shown})

    def _reply(self, reply: ModelReply) -> None:
        if reply.text:
            said = {"type": "output_text", "text": reply.text}
            self._item({"type": "message", "role": "assistant", "content": [said]})
            self._shown(
                {
                    "type": "AgentMessage",
                    "id": self._id("reply"),
                    "content": [{"type": "Text", "text": reply.text}],
                }
            )
        for call in reply.calls:
            self._item(_call(call))
        for call in reply.calls:
            self._item(_output(call))
            if call.name == _SHELL:
                self._shown(self._command(call))

    def _command(self, call: StoredCall) -> dict[str, Any]:
        return {
            "type": "CommandExecution",
            "id": call.id,
            "command": ["bash", "-lc", str(call.arguments.get("cmd", ""))],
            "cwd": f"file://{self._plan.folder}",
            "parsed_cmd": [],
            "source": "agent",
            "status": "failed" if call.failed else "completed",
            "aggregated_output": call.output,
            "exit_code": 1 if call.failed else 0,
            "duration": {"secs": 0, "nanos": 0},
        }

    def _begin_turn(self, number: int) -> None:
        self._turn = part_id(self._plan, "turn", self._ordinal, number)
        self._event({"type": "task_started", "turn_id": self._turn})

    def _end_turn(self) -> None:
        if self._turn:
            self._event({"type": "task_complete", "turn_id": self._turn})
            self._turn = ""

    def _shown(self, item: dict[str, Any]) -> None:
        now = milliseconds(self._plan.began)
        event = {"type": "item_completed", "thread_id": self._plan.id, "turn_id": self._turn, "item": item}
        self._event({**event, "started_at_ms": now, "completed_at_ms": now})

    def _id(self, kind: str) -> str:
        return part_id(self._plan, kind, self._ordinal, len(self._rows))

    def _item(self, payload: dict[str, Any]) -> None:
        self._add("response_item", payload)

    def _event(self, payload: dict[str, Any]) -> None:
        self._add("event_msg", payload)

    def _add(self, kind: str, payload: dict[str, Any]) -> None:
        moment: datetime = next(self._moments)
        row = {"timestamp": stamp(moment), "type": kind, "payload": payload}
        if self._ordinal is not None:
            row["ordinal"] = self._ordinal
            self._ordinal += 1
        self._rows.append(row)


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image(media: Media) -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:{media.mime};base64,{media.data}"}


def _call(call: StoredCall) -> dict[str, Any]:
    if call.name == _PATCH:
        text = str(call.arguments.get("input", ""))
        return {
            "type": "custom_tool_call",
            "call_id": call.id,
            "name": call.name,
            "input": text,
            "status": "completed",
        }
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _output(call: StoredCall) -> dict[str, Any]:
    kind = "custom_tool_call_output" if call.name == _PATCH else "function_call_output"
    output: Any = call.output
    if call.media:
        output = [*([_text(call.output)] if call.output else []), *map(_image, call.media)]
    return {"type": kind, "call_id": call.id, "output": output}


# Repairs


_LONGEST: Final = 64


def repair_codex(draft: SessionDraft) -> list[SessionFault]:
    faults = [*_call_ids(draft, list(_items(draft.rows))), *_thoughts(draft, list(_items(draft.rows)))]
    if draft.shortened:
        _renumber(draft)
    return faults


Item = tuple[int, tuple[str | int, ...], dict[str, Any]]
"""An item that is sent: its line, its path in the row, and itself."""


def _items(rows: list[Row]) -> Iterator[Item]:
    """What Codex sends: the items, from the last compaction on that says what replaces all before it."""
    spoken = [(line, row) for line, row in rows if row.get("type") in ("response_item", "compacted")]
    replaced = [at for at, (_, row) in enumerate(spoken) if _replaced_history(row) is not None]
    for line, row in spoken[replaced[-1] if replaced else 0 :]:
        if row["type"] == "response_item":
            yield line, ("payload",), fields(row.get("payload"))
        else:
            for index, item in enumerate(_replaced_history(row) or ()):
                yield line, ("payload", "replacement_history", index), fields(item)


def _replaced_history(row: dict[str, Any]) -> list[Any] | None:
    history = fields(row.get("payload")).get("replacement_history")
    return history if row.get("type") == "compacted" and isinstance(history, list) else None


def _call_ids(draft: SessionDraft, items: list[Item]) -> list[SessionFault]:
    uses = [
        IdUse(
            line,
            (*path, "call_id"),
            text_of(item["call_id"]),
            call=not text_of(item.get("type")).endswith("_output"),
        )
        for line, path, item in items
        if isinstance(item.get("call_id"), str)
    ]
    renamed, orphans = rename_calls(draft, uses, "call_", lambda call_id: 0 < len(call_id) <= _LONGEST)
    return [
        *(_orphan(draft, use) for use in orphans),
        *(id_fault(new, illegal=_illegal(new.use.id)) for new in renamed),
    ]


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    row = draft.change(use.line)
    output = at(row, use.path[:-1]).get("output")
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else objects(output)
    shown = [part for part in parts if part.get("type") in ("input_text", "input_image")]
    put(
        row,
        use.path[:-1],
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ORPHAN}, *shown]},
    )
    return orphan_fault(use.line, use.id, "lost", "Codex does not send it")


def _illegal(call_id: str) -> str:
    return f'call id "{call_id}" is not legal: it has 1 to {_LONGEST} characters'


def _thoughts(draft: SessionDraft, items: list[Item]) -> list[SessionFault]:
    faults: list[SessionFault] = []
    for line, path, item in reversed(items):
        if item.get("type") != "reasoning" or text_of(item.get("encrypted_content")):
            continue
        if len(path) == 1:
            draft.remove(line)
        else:
            del at(draft.change(line), path[:-1])[path[-1]]
        faults.append(
            SessionFault(
                line=line,
                kind="reasoning_dropped",
                effect="refused",
                what="a thought without its encrypted content",
                then=REFUSED,
                fix="the thought is removed: no provider can read it",
            )
        )
    return faults[::-1]


def _renumber(draft: SessionDraft) -> None:
    """Lines that are numbered stay numbered without a gap."""
    numbered = [(line, row["ordinal"]) for line, row in draft.rows if type(row.get("ordinal")) is int]
    for number, (line, ordinal) in enumerate(numbered, numbered[0][1] if numbered else 0):
        if ordinal != number:
            draft.change(line)["ordinal"] = number
