"""Gemini CLI: lines that add, replace or rewind messages; earlier versions wrote one JSON object.

A call's result is stored twice, with the call and in a message of its own. Gemini CLI sends both, and calls and results as
they stand; a reader keeps one of them. Written, calls stand in a reply's content and results in rows of their own, the one form
that it resumes again and again.
"""

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
from segue.interop.agents.session_draft import (
    CLOSED,
    ORPHAN,
    REFUSED,
    SessionFault,
    at,
    new_id,
    orphan_fault,
)
from segue.interop.agents.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    moments,
    objects,
    part_id,
    session_of,
    stamp,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.interop.agents.session_draft import SessionDraft
    from segue.interop.agents.session_file import SessionPlan


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


# Sessions written for it


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


# Repairs


RowPath = tuple[str | int, ...]
Recorded = tuple[int, RowPath, dict[str, Any]]
"""A message: its line, its path in the row, and itself."""


def repair_gemini_cli(draft: SessionDraft) -> list[SessionFault]:
    faults = [
        fault for place in _recorded(draft.rows) for fault in _results(draft, place, _recorded(draft.rows))
    ]
    answered = {call_id for _, _, message in _recorded(draft.rows) for call_id in _answered(message)}
    # From the last to the first: what is put into a list of messages moves those behind it.
    places = reversed(_recorded(draft.rows))
    return [*faults, *(fault for place in places for fault in _open_calls(draft, place, answered))]


def _answered(message: dict[str, Any]) -> set[str]:
    """The calls that a message has a result of."""
    responses = [text_of(response.get("id")) for _, response in _responses(message)]
    return {*responses, *_stored_results(message)}


def _stored_results(message: dict[str, Any]) -> set[str]:
    """The calls that have their results with them."""
    return {
        text_of(fields(part.get("functionResponse")).get("id"))
        for call in objects(message.get("toolCalls"))
        for part in objects(call.get("result"))
    } - {""}


def _recorded(rows: list[Row]) -> list[Recorded]:
    """The messages that are in force: a row with a known id replaces it, `$set` replaces all."""
    recorded: dict[str, Recorded] = {}
    for line, row in rows:
        for path in (("$set", "messages"), ("messages",)):
            held = fields(row.get("$set")).get("messages") if len(path) == 2 else row.get("messages")
            if isinstance(held, list):
                recorded = {
                    text_of(fields(one).get("id")) or f"{line}.{index}": (line, (*path, index), fields(one))
                    for index, one in enumerate(held)
                }
        if isinstance(row.get("$rewindTo"), str):
            keys = list(recorded)
            end = keys.index(row["$rewindTo"]) if row["$rewindTo"] in recorded else len(keys)
            recorded = {key: recorded[key] for key in keys[:end]}
        elif row.get("type") in ("user", "gemini"):
            recorded[text_of(row.get("id")) or f"{line}"] = (line, (), row)
    return list(recorded.values())


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The id and the name of each call, once."""
    seen: set[str] = set()
    inside = [fields(part.get("functionCall")) for part in objects(message.get("content"))]
    for call in (*inside, *objects(message.get("toolCalls"))):
        if (call_id := text_of(call.get("id"))) and call_id not in seen:
            seen.add(call_id)
            yield call_id, text_of(call.get("name"))


def _responses(message: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if response := fields(fields(part).get("functionResponse")):
            yield index, response


def _results(draft: SessionDraft, place: Recorded, messages: list[Recorded]) -> list[SessionFault]:
    """Results that are stored twice, and results whose call is not before them."""
    line, path, message = place
    if message.get("type") != "user":
        return []
    before = messages[: next(at for at, one in enumerate(messages) if one[:2] == place[:2])]
    kept = {call_id for _, _, one in messages for call_id in _stored_results(one)}
    called = {call_id for _, _, one in before for call_id, _ in _calls(one)}
    answered = {text_of(response.get("id")) for _, _, one in before for _, response in _responses(one)}
    faults: list[SessionFault] = []
    doubled: list[int] = []
    for index, response in _responses(message):
        call_id = text_of(response.get("id"))
        if call_id in kept or (call_id and call_id in answered):
            doubled.append(index)
            faults.append(_double_fault(line, call_id))
        elif call_id and call_id not in called:
            at(draft.change(line), path)["content"][index] = {"text": f"{ORPHAN}\n{_text(response)}"}
            faults.append(orphan_fault(line, call_id, "refused", REFUSED))
        answered.add(call_id)
    if doubled and len(doubled) == len(message["content"]) and not path:
        # An earlier line with the same id would come into force again.
        for number, row in draft.rows:
            if number == line or (row.get("id") and row.get("id") == message.get("id")):
                draft.remove(number)
    elif doubled:
        content = at(draft.change(line), path)["content"]
        for index in reversed(doubled):
            del content[index]
    return faults


def _double_fault(line: int, call_id: str) -> SessionFault:
    return SessionFault(
        line=line,
        kind="result_superseded",
        effect="refused",
        what="this result is stored twice",
        then=f"Gemini CLI sends both, and {REFUSED}",
        fix="one of them is removed",
        call_ids=(call_id,),
    )


def _text(response: dict[str, Any]) -> str:
    given = response.get("response")
    output = fields(given).get("output", given)
    return output if isinstance(output, str) else json_of(output)


def _open_calls(draft: SessionDraft, place: Recorded, answered: set[str]) -> list[SessionFault]:
    line, path, message = place
    if message.get("type") != "gemini":
        return []
    missing = [(call_id, name) for call_id, name in _calls(message) if call_id not in answered]
    if not missing:
        return []
    stored = {text_of(call.get("id")): index for index, call in enumerate(objects(message.get("toolCalls")))}
    behind: list[dict[str, Any]] = []
    for call_id, name in missing:
        response = {"id": call_id, "name": name, "response": {"error": WORDING["interrupted"]}}
        part = {"functionResponse": response}
        if call_id in stored:
            at(draft.change(line), path)["toolCalls"][stored[call_id]]["result"] = [part]
        else:
            behind.append(part)
    if behind:
        row = {
            "id": new_id("", message.get("id"), *(call_id for call_id, _ in missing)),
            "timestamp": message.get("timestamp"),
            "type": "user",
            "content": behind,
        }
        if path:
            at(draft.change(line), path[:-1]).insert(int(path[-1]) + 1, row)
        else:
            draft.insert_after(line, row)
    return [
        SessionFault(
            line=line,
            kind="call_closed",
            effect="refused",
            what="call without a result",
            then=REFUSED,
            fix=CLOSED,
            call_ids=tuple(call_id for call_id, _ in missing),
        )
    ]
