"""Qwen Code: a tree of lines like Claude Code's, with Gemini's parts, which it sends over the Chat wire.

It closes calls itself; a second call with the id of an earlier one, and a result without a call, vanish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from segue.interop.agents.gemini_cli import call_part, prompt_parts, response_part
from segue.interop.agents.session_draft import (
    ORPHAN,
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
    chat_call,
    current_branch,
    fields,
    folder_name,
    json_text,
    moments,
    objects,
    part_id,
    session_of,
    stamp,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from segue.interop.agents.session_draft import SessionDraft
    from segue.interop.agents.session_file import SessionPlan

_SPEAKERS = frozenset({"user", "assistant", "tool_result"})


def read_qwen_code(rows: list[Row]) -> SessionFile | None:
    branch = _branch(rows)
    if not branch:
        return None
    said: list[Said] = []
    model = ""
    for number, row in branch:
        if row.get("subtype") == "chat_compression":  # it takes the place of everything before
            history = objects(fields(row.get("systemPayload")).get("compressedHistory"))
            said = [Said(message, number) for content in history for message in _messages(content)]
        elif _is_message(row):
            model = text_of(row.get("model")) or model
            said += [Said(message, number) for message in _messages(row["message"])]
    return session_of("Qwen Code session", "openai_chat", said, model=model)


def sent_rows(rows: list[Row]) -> list[Row]:
    """The rows behind the last compaction whose messages the next request holds."""
    branch = _branch(rows)
    cut = max(
        (at for at, (_, row) in enumerate(branch) if row.get("subtype") == "chat_compression"), default=-1
    )
    return [row for row in branch[cut + 1 :] if _is_message(row[1])]


def _branch(rows: list[Row]) -> list[Row]:
    spoken = [row for row in rows if _is_message(row[1])]
    return current_branch(rows, spoken[-1], id_key="uuid", parent_key="parentUuid") if spoken else []


def _is_message(row: dict[str, Any]) -> bool:
    return (
        text_of(row.get("type")) in _SPEAKERS
        and "sessionId" in row
        and isinstance(fields(row.get("message")).get("parts"), list)
    )


def _messages(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = objects(content.get("parts"))
    if content.get("role") == "model":
        return _reply(parts)
    results = [_result(fields(part["functionResponse"])) for part in parts if "functionResponse" in part]
    prompt = [block for part in parts for block in _prompt(part)]
    match prompt:
        case []:
            return results
        case [{"type": "text", "text": text}]:
            return [*results, {"role": "user", "content": text}]
        case _:
            return [*results, {"role": "user", "content": prompt}]


def _prompt(part: dict[str, Any]) -> list[dict[str, Any]]:
    text, media = text_of(part.get("text")), fields(part.get("inlineData"))
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    if media:
        url = f"data:{text_of(media.get('mimeType'))};base64,{text_of(media.get('data'))}"
        blocks.append({"type": "image_url", "image_url": {"url": url}})
    return blocks


def _reply(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = "".join(text_of(part.get("text")) for part in parts if not part.get("thought"))
    thought = "".join(text_of(part.get("text")) for part in parts if part.get("thought"))
    calls = [
        chat_call(call.get("id"), call.get("name"), call.get("args"))
        for part in parts
        if (call := fields(part.get("functionCall")))
    ]
    if not text and not calls:
        return []
    reply = {"role": "assistant", "content": text or None, "tool_calls": calls, "reasoning_content": thought}
    return [{name: value for name, value in reply.items() if value or name == "content"}]


def _result(response: dict[str, Any]) -> dict[str, Any]:
    given = fields(response.get("response"))
    output = given.get("output", given.get("error", given))
    return {"role": "tool", "tool_call_id": text_of(response.get("id")), "content": json_text(output)}


# Sessions written for it


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


# Repairs


def repair_qwen_code(draft: SessionDraft) -> list[SessionFault]:
    renamed, orphans = rename_calls(draft, _id_uses(sent_rows(draft.rows)), "call_", bool)
    return [
        *(
            id_fault(new, "lost", "Qwen Code drops the second call and its result", "a call without an id")
            for new in renamed
        ),
        *(_orphan(draft, use) for use in orphans),
    ]


def _id_uses(sent: list[Row]) -> Iterator[IdUse]:
    for line, row in sent:
        parts = fields(row.get("message")).get("parts")
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            for name in ("functionCall", "functionResponse"):
                if held := fields(fields(part).get(name)):
                    path = ("message", "parts", index, name, "id")
                    yield IdUse(line, path, text_of(held.get("id")), call=name == "functionCall")


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    row = draft.change(use.line)
    given = fields(at(row, use.path[:-1]).get("response"))
    output = given.get("output", given.get("error", given))
    text = output if isinstance(output, str) else json_of(output)
    put(row, use.path[:-2], {"text": f"{ORPHAN}\n{text}"})
    if not any("functionResponse" in fields(part) for part in row["message"]["parts"]):
        row["type"] = "user"
    return orphan_fault(use.line, use.id, "lost", "Qwen Code does not send it")
