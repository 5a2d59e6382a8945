"""Codex: it closes calls itself and drops results without one; repeated or long ids and thoughts without a seal kill it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.interop.session_readers.session_file import fields, objects, text_of
from segue.interop.session_repairs.session_draft import (
    AS_TEXT,
    NEW_ID,
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    at,
    put,
    rename_calls,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.interop.session_readers.session_file import Row
    from segue.interop.session_repairs.session_draft import NewId, SessionDraft

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
    replaced = [at for at, (_, row) in enumerate(spoken) if _replacement(row) is not None]
    for line, row in spoken[replaced[-1] if replaced else 0 :]:
        if row["type"] == "response_item":
            yield line, ("payload",), fields(row.get("payload"))
        else:
            for index, item in enumerate(_replacement(row) or ()):
                yield line, ("payload", "replacement_history", index), fields(item)


def _replacement(row: dict[str, Any]) -> list[Any] | None:
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
        *(_id_fault(new) for new in renamed),
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
    return SessionFault(
        line=use.line,
        kind="call_reconstructed",
        effect="lost",
        what="result without a call",
        then="Codex does not send it",
        fix=AS_TEXT,
        call_ids=(use.id,),
    )


def _id_fault(new: NewId) -> SessionFault:
    return SessionFault(
        line=new.use.line,
        kind="id_replaced",
        effect="refused",
        what=f'call id "{new.use.id}" is used a second time'
        if new.repeated
        else f'call id "{new.use.id}" is not legal: it has 1 to {_LONGEST} characters',
        then=REFUSED,
        fix=NEW_ID,
        call_ids=(new.use.id,),
    )


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
