"""Claude Code: it closes the last call itself and tries again without thinking, but drops whole replies in the middle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_OID, uuid5

from segue.interop.session_readers.claude_code import sent_rows
from segue.interop.session_readers.session_file import fields, objects, text_of
from segue.interop.session_repairs.session_draft import (
    AS_TEXT,
    NEW_ID,
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    new_id,
    rename_calls,
)
from segue.transcript.blocks.outcomes import WORDING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.interop.session_readers.session_file import Row
    from segue.interop.session_repairs.session_draft import NewId, SessionDraft

_EMPTY: Final = "(no content)"


def repair_claude_code(draft: SessionDraft) -> list[SessionFault]:
    steps = (_shared_reply_ids, _ids_and_orphans, _open_calls, _empty_prompts, _unsigned)
    return [fault for step in steps for fault in step(draft, sent_rows(draft.rows))]


def _content(row: dict[str, Any]) -> list[dict[str, Any]]:
    return objects(fields(row.get("message")).get("content"))


def _reply_id(row: dict[str, Any]) -> str:
    return text_of(fields(row.get("message")).get("id")) if row.get("type") == "assistant" else ""


def _shared_reply_ids(draft: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    """Rows of one reply share its id. A reply that follows results and has the id of an earlier one is joined to that one."""
    replies = {text_of(row.get("uuid")) for _, row in sent if row.get("type") == "assistant"}
    users = {text_of(row.get("uuid")) for _, row in sent if row.get("type") == "user"}
    parents = {text_of(row.get("uuid")): text_of(row.get("parentUuid")) for _, row in draft.rows}
    seen: set[str] = set()
    renamed: dict[str, str] = {}
    faults: list[SessionFault] = []
    for line, row in sent:
        reply = _reply_id(row)
        if not reply:
            continue
        before = text_of(row.get("parentUuid"))
        for _ in parents:  # rows that are not sent may stand between; a circle of rows must end, too
            if before in users or before in replies:
                break
            before = parents.get(before, "")
        if reply in seen and before in users:
            renamed[reply] = new_id("msg_", reply, line)
            faults.append(
                SessionFault(
                    line=line,
                    kind="reply_id_repeated",
                    effect="lost",
                    what=f'this reply has the id of an earlier one, "{reply}"',
                    then="Claude Code joins the two replies: the order of texts and calls changes",
                    fix="the later reply gets an id of its own",
                )
            )
        if reply in renamed:
            draft.change(line)["message"]["id"] = renamed[reply]
        seen.add(reply)
    return faults


def _ids_and_orphans(draft: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    """Calls whose id is illegal or repeated, with their results; and results that no call is left for."""
    renamed, orphans = rename_calls(draft, _id_uses(sent), "toolu_")
    return [
        *(_id_fault(new) for new in renamed),
        # From the last to the first: a result's images move to the end of its row.
        *reversed([_orphan(draft, use) for use in reversed(orphans)]),
    ]


def _id_uses(sent: list[Row]) -> Iterator[IdUse]:
    for line, row in sent:
        content = fields(row.get("message")).get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            match fields(block).get("type"):
                case "tool_use":
                    yield IdUse(
                        line, ("message", "content", index, "id"), text_of(block.get("id")), call=True
                    )
                case "tool_result":
                    given = text_of(block.get("tool_use_id"))
                    yield IdUse(line, ("message", "content", index, "tool_use_id"), given, call=False)


def _id_fault(new: NewId) -> SessionFault:
    given = new.use.id
    return SessionFault(
        line=new.use.line,
        kind="id_replaced",
        effect="lost" if new.repeated else "refused",
        what=f'call id "{given}" is used a second time'
        if new.repeated
        else f'call id "{given}" is not legal',
        then="Claude Code drops the second call and its result" if new.repeated else REFUSED,
        fix=NEW_ID,
        call_ids=(given,),
    )


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    blocks = draft.change(use.line)["message"]["content"]
    index = use.path[2]
    content = blocks[index].get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    text = "\n".join([ORPHAN, *(text_of(part.get("text")) for part in parts if part.get("type") == "text")])
    blocks[index] = {"type": "text", "text": text}
    blocks += [part for part in parts if part.get("type") != "text"]
    return SessionFault(
        line=use.line,
        kind="call_reconstructed",
        effect="lost",
        what="result without a call",
        then=f'Claude Code sends "{_EMPTY}" in its place',
        fix=AS_TEXT,
        call_ids=(use.id,),
    )


def _open_calls(draft: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    """Calls without a result, reply by reply."""
    answered = {
        text_of(block.get("tool_use_id"))
        for _, row in sent
        if row.get("type") == "user"
        for block in _content(row)
    }
    replies: dict[str, list[Row]] = {}
    for line, row in sent:
        if row.get("type") == "assistant":
            replies.setdefault(_reply_id(row) or f"line {line}", []).append((line, row))
    faults: list[SessionFault] = []
    for rows in replies.values():
        calls = [
            text_of(block.get("id"))
            for _, row in rows
            for block in _content(row)
            if block.get("type") == "tool_use"
        ]
        missing = [call for call in calls if call not in answered]
        if not missing:
            continue
        parents = {row.get("parentUuid") for _, row in rows}
        tails = [(line, row) for line, row in rows if row.get("uuid") not in parents]
        line, last = (tails or rows)[-1]
        ends = sent[-1][0] == rows[-1][0]
        beside = len(missing) < len(calls)
        healed = ends or beside
        faults.append(
            SessionFault(
                line=line,
                kind="call_closed",
                effect="healed" if healed else "lost",
                what="call without a result",
                then="Claude Code closes it itself"
                if healed
                else "Claude Code silently drops the whole reply with its text",
                fix="" if healed else "an error result that says so is put behind it",
                call_ids=tuple(missing),
            )
        )
        if not healed:
            _close(draft, sent, line, last, missing)
    return faults


def _close(draft: SessionDraft, sent: list[Row], line: int, last: dict[str, Any], calls: list[str]) -> None:
    uuid = str(uuid5(NAMESPACE_OID, f"{last.get('uuid')}/{'/'.join(calls)}"))
    results = [
        {"type": "tool_result", "tool_use_id": call, "content": WORDING["interrupted"], "is_error": True}
        for call in calls
    ]
    envelope = ("isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch")
    row = {
        "parentUuid": last.get("uuid"),
        **{name: last[name] for name in envelope if name in last},
        "type": "user",
        "message": {"role": "user", "content": results},
        "uuid": uuid,
        "timestamp": _moment_after(text_of(last.get("timestamp"))),
    }
    if last.get("uuid") is None:  # an old file without a tree: its rows follow each other
        row = {name: value for name, value in row.items() if name not in ("uuid", "parentUuid")}
    draft.insert_after(line, row)
    for number, following in sent:
        if number != line and last.get("uuid") and following.get("parentUuid") == last["uuid"]:
            draft.change(number)["parentUuid"] = uuid


def _moment_after(timestamp: str) -> str:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    later = (moment + timedelta(milliseconds=1)).astimezone(UTC)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _empty_prompts(draft: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    faults: list[SessionFault] = []
    for line, row in sent:
        if row.get("type") == "user" and fields(row.get("message")).get("content") == "":
            draft.change(line)["message"]["content"] = _EMPTY
            faults.append(
                SessionFault(
                    line=line,
                    kind="blank_text",
                    effect="refused",
                    what="a user message without content",
                    then=REFUSED,
                    fix=f'"{_EMPTY}" stands in its place',
                )
            )
    return faults


def _unsigned(_: SessionDraft, sent: list[Row]) -> list[SessionFault]:
    return [
        SessionFault(
            line=line,
            kind="reasoning_dropped",
            effect="healed",
            what="thinking without a signature",
            then="the provider refuses it once; Claude Code then sends the session without thinking",
        )
        for line, row in sent
        if row.get("type") == "assistant"
        and any(
            block.get("type") == "thinking" and not text_of(block.get("signature")) for block in _content(row)
        )
    ]
