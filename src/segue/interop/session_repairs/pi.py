"""pi: it closes calls itself, but sends ids and results as they stand, and fails at replies without counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.interop.session_readers.pi import sent_entries
from segue.interop.session_readers.session_file import fields, objects, text_of
from segue.interop.session_repairs.session_draft import (
    AS_TEXT,
    NEW_ID,
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    is_legal_id,
    rename_calls,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.interop.session_readers.session_file import Row
    from segue.interop.session_repairs.session_draft import NewId, SessionDraft

_MESSAGES: Final = "anthropic-messages"
_RESPONSES: Final = "-responses"


def repair_pi(draft: SessionDraft) -> list[SessionFault]:
    sent = [(line, entry) for line, entry in sent_entries(draft.rows) if entry.get("type") == "message"]
    replies = [
        fields(entry.get("message"))
        for _, entry in sent
        if fields(entry.get("message")).get("role") == "assistant"
    ]
    api = text_of(replies[-1].get("api")) if replies else ""
    renamed, orphans = rename_calls(
        draft,
        _id_uses(sent),
        "call_",
        # Other wires than the Messages wire take ids with a colon or a bar, and pi writes such ids there itself.
        is_legal_id if api == _MESSAGES else bool,
        _scope(api),
    )
    return [
        *(_id_fault(new) for new in renamed),
        *(_orphan(draft, use) for use in orphans),
        *_uncounted(draft, sent),
    ]


def _scope(api: str) -> Callable[[IdUse], object]:
    """Where the wire takes an id once only: in one reply, in the whole session, or nowhere."""
    if api == _MESSAGES:
        return lambda use: use.line
    if api.endswith(_RESPONSES):
        return lambda _: None
    return lambda use: use


def _id_uses(sent: list[Row]) -> Iterator[IdUse]:
    for line, entry in sent:
        message = fields(entry.get("message"))
        if message.get("role") == "toolResult":
            yield IdUse(line, ("message", "toolCallId"), text_of(message.get("toolCallId")), call=False)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if message.get("role") == "assistant" and fields(block).get("type") == "toolCall":
                yield IdUse(line, ("message", "content", index, "id"), text_of(block.get("id")), call=True)


def _id_fault(new: NewId) -> SessionFault:
    given = new.use.id
    return SessionFault(
        line=new.use.line,
        kind="id_replaced",
        effect="refused",
        what=f'call id "{given}" is used a second time'
        if new.repeated
        else f'call id "{given}" is not legal',
        then=REFUSED,
        fix=NEW_ID,
        call_ids=(given,),
    )


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    entry = draft.change(use.line)
    message: dict[str, Any] = entry["message"]
    content = [{"type": "text", "text": ORPHAN}, *objects(message.get("content"))]
    entry["message"] = {"role": "user", "content": content, **_only(message, "timestamp")}
    return SessionFault(
        line=use.line,
        kind="call_reconstructed",
        effect="refused",
        what="result without a call",
        then=REFUSED,
        fix=AS_TEXT,
        call_ids=(use.id,),
    )


def _uncounted(draft: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    faults: list[SessionFault] = []
    for line, entry in sent:
        message = fields(entry.get("message"))
        if message.get("role") != "assistant" or isinstance(message.get("usage"), dict):
            continue
        draft.change(line)["message"]["usage"] = _no_counts()
        faults.append(
            SessionFault(
                line=line,
                kind="usage_missing",
                effect="refused",
                what="a reply without counts of tokens",
                then="pi fails when it opens the session",
                fix="counts of zero are added",
            )
        )
    return faults


def _only(message: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: message[name]} if name in message else {}
