"""Gemini CLI: it stores each result twice and sends both, and sends calls and results as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.interop.session_readers.session_file import fields, objects, text_of
from segue.interop.session_repairs.session_draft import (
    AS_TEXT,
    CLOSED,
    ORPHAN,
    REFUSED,
    SessionFault,
    at,
    new_id,
)
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.interop.session_readers.session_file import Row
    from segue.interop.session_repairs.session_draft import SessionDraft

Path = tuple[str | int, ...]
Recorded = tuple[int, Path, dict[str, Any]]
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
            faults.append(_orphan_fault(line, call_id))
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


def _orphan_fault(line: int, call_id: str) -> SessionFault:
    return SessionFault(
        line=line,
        kind="call_reconstructed",
        effect="refused",
        what="result without a call",
        then=REFUSED,
        fix=AS_TEXT,
        call_ids=(call_id,),
    )


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
