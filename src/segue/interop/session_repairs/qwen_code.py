"""Qwen Code: it closes calls itself; a second call with the id of an earlier one, and a result without a call, vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.interop.session_readers.qwen_code import sent_rows
from segue.interop.session_readers.session_file import fields, text_of
from segue.interop.session_repairs.session_draft import (
    AS_TEXT,
    NEW_ID,
    ORPHAN,
    IdUse,
    SessionFault,
    at,
    put,
    rename_calls,
)
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.interop.session_readers.session_file import Row
    from segue.interop.session_repairs.session_draft import SessionDraft


def repair_qwen_code(draft: SessionDraft) -> list[SessionFault]:
    renamed, orphans = rename_calls(draft, _id_uses(sent_rows(draft.rows)), "call_", bool)
    return [
        *(
            SessionFault(
                line=new.use.line,
                kind="id_replaced",
                effect="lost",
                what=f'call id "{new.use.id}" is used a second time'
                if new.repeated
                else "a call without an id",
                then="Qwen Code drops the second call and its result",
                fix=NEW_ID,
                call_ids=(new.use.id,),
            )
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
    return SessionFault(
        line=use.line,
        kind="call_reconstructed",
        effect="lost",
        what="result without a call",
        then="Qwen Code does not send it",
        fix=AS_TEXT,
        call_ids=(use.id,),
    )
