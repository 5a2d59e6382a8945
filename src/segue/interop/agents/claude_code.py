"""Claude Code: a tree of lines with one content block each; the lines of one reply share its message id.

The branch that is read is the one that Claude Code itself resumes. It notes in `last-prompt` lines where a session goes on.
It closes the last call itself and tries again without thinking, but drops whole replies in the middle.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, final
from uuid import NAMESPACE_OID, uuid5

from segue.conversation.blocks import Media
from segue.interop.agents.session_draft import (
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    id_fault,
    new_id,
    orphan_fault,
    rename_calls,
)
from segue.interop.agents.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    folder_name,
    image_block,
    messages_session,
    moments,
    objects,
    part_id,
    short_id,
    stamp,
    text_block,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall
from segue.transcript.blocks.outcomes import WORDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from segue.interop.agents.session_draft import SessionDraft
    from segue.interop.agents.session_file import SessionPlan

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_SPEAKERS = frozenset({"user", "assistant"})


def read_claude_code(rows: list[Row]) -> SessionFile | None:
    if not any(_is_claude_code(row) for _, row in rows):
        return None
    said: list[Said] = []
    replies: dict[str, list[Any]] = {}
    for number, row in sent_rows(rows):
        message = fields(row.get("message"))
        content = message["content"]
        copied = list(content) if isinstance(content, list) else content
        reply = text_of(message.get("id")) if row["type"] == "assistant" else ""
        if reply in replies and isinstance(copied, list):
            replies[reply].extend(copied)
            continue
        if reply and isinstance(copied, list):
            replies[reply] = copied
        model = _model(message) if row["type"] == "assistant" else None
        said.append(Said({"role": row["type"], "content": copied}, number, model))
    return messages_session("Claude Code session", said)


def sent_rows(rows: list[Row]) -> list[Row]:
    """The rows whose messages the next request holds."""
    tree = _Tree(_once([(number, row) for number, row in rows if not row.get("isSidechain")]))
    leaf = tree.leaf([text_of(row.get("leafUuid")) for _, row in rows if row.get("type") == "last-prompt"])
    return _sent(tree, leaf) if leaf is not None else []


def _model(message: dict[str, Any]) -> str:
    name = text_of(message.get("model"))
    return "" if name.startswith("<") else name  # "<synthetic>": the program wrote it


def _is_claude_code(row: dict[str, Any]) -> bool:
    return (
        "sessionId" in row
        and text_of(row.get("type")) in _SPEAKERS
        and "parts" not in fields(row.get("message"))
    )


def _is_message(row: dict[str, Any]) -> bool:
    return text_of(row.get("type")) in _SPEAKERS and "content" in fields(row.get("message"))


class _Tree:
    """The lines in the order of their times, and where each hangs. The file's order decides only where times are equal."""

    def __init__(self, main: list[Row]) -> None:
        self.rows = _in_time(_linked(main))
        places = {row["uuid"]: place for place, (_, row) in enumerate(self.rows)}
        self._places = places
        kept = _kept_by_compactions(self.rows)
        self._parents: list[int | None] = []
        self._sources: list[int | None] = []
        """Where each goes on from: as its parent, but of a compaction the line before it, which is not sent any more."""
        for place, (_, row) in enumerate(self.rows):
            named = kept.get(row["uuid"], row.get("parentUuid"))
            # A parent that is not in the file is the line before.
            before = place - 1 if place else None
            parent = places.get(named, before) if isinstance(named, str) else None
            self._parents.append(parent)
            source = places.get(text_of(row.get("logicalParentUuid"))) if parent is None else parent
            self._sources.append(source)

    def leaf(self, named: list[str]) -> int | None:
        """Where the session goes on: the newest end behind the line that was named last, if one was; else the newest of all.
        None if nobody spoke."""
        start = next((self._places[uuid] for uuid in reversed(named) if uuid in self._places), None)
        behind = range(len(self.rows)) if start is None else sorted(self._behind(start))
        spoken = [place for place in behind if _is_message(self.rows[place][1])]
        # Times of neighbours may be the wrong way round: what others go on from is no end.
        passed: set[int] = set()
        for place in spoken:
            source = self._sources[place]
            while source is not None and source not in passed:
                passed.add(source)
                source = self._sources[source]
        ends = [place for place in spoken if place not in passed] or spoken
        return ends[-1] if ends else start

    def _behind(self, start: int) -> set[int]:
        """This line and all that goes on from it."""
        followers: dict[int, list[int]] = {}
        for place, source in enumerate(self._sources):
            if source is not None:
                followers.setdefault(source, []).append(place)
        found: set[int] = set()
        waiting = [start]
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting += followers.get(place, ())
        return found

    def branch(self, leaf: int) -> list[Row]:
        """The lines up to the leaf. They begin at a compaction, whose line has no parent: what was before is not sent."""
        place: int | None = leaf
        way: dict[int, Row] = {}
        while place is not None and place not in way:
            way[place] = self.rows[place]
            place = self._parents[place]
        return [*way.values()][::-1]


def _sent(tree: _Tree, leaf: int) -> list[Row]:
    """The messages of the branch to the leaf, with all calls and results of its replies.

    Rewinds, edited prompts and crashes leave dead branches. The results of parallel calls are branches too: each
    hangs off the line of its own call, and the conversation continues from only one of them.
    """
    branch = [row for row in tree.branch(leaf) if _is_message(row[1])]
    on_branch = {number for number, _ in branch}
    calls = {row["uuid"]: reply for _, row in tree.rows if (reply := _reply_id(row))}
    beside: dict[str, list[Row]] = {_part_of(row, calls): [] for _, row in branch}
    for number, row in tree.rows:
        if number not in on_branch and _is_message(row) and (part := _part_of(row, calls)) in beside:
            beside[part].append((number, row))
    ends = {_part_of(row, calls): number for number, row in branch}
    sent: list[Row] = []
    for number, row in branch:
        sent.append((number, row))
        part = _part_of(row, calls)
        if part and ends[part] == number:
            sent += beside[part]
    return [row for row in sent if not row[1].get("isApiErrorMessage")]


def _part_of(row: dict[str, Any], calls: dict[str, str]) -> str:
    """The reply that a line belongs to: as a piece of it, or with results of its calls. Empty if to none."""
    return _reply_id(row) or (calls.get(text_of(row.get("parentUuid")), "") if _has_only_results(row) else "")


def _once(rows: list[Row]) -> list[Row]:
    """The rows without those that were written again when a session was resumed."""
    seen: set[str] = set()
    kept: list[Row] = []
    for number, row in rows:
        uuid = text_of(row.get("uuid"))
        if not uuid or uuid not in seen:
            kept.append((number, row))
        seen.add(uuid)
    return kept


def _linked(main: list[Row]) -> list[Row]:
    """Rows without an id of their own continue from the row before."""
    linked: list[Row] = []
    for number, row in main:
        if isinstance(row.get("uuid"), str):
            linked.append((number, row))
        elif text_of(row.get("type")) in _SPEAKERS or row.get("type") == "system":
            before = linked[-1][1].get("uuid") if linked else None
            cut = row.get("subtype") == "compact_boundary"
            linked.append((number, {**row, "uuid": f"line {number}", "parentUuid": None if cut else before}))
    return linked


def _in_time(linked: list[Row]) -> list[Row]:
    """In the order of their times. A line without one was written with the line before it."""
    times: dict[int, datetime] = {}
    now = _LONG_AGO
    for number, row in linked:
        now = times[number] = _time_of(row) or now
    return sorted(linked, key=lambda row: times[row[0]])


def _time_of(row: dict[str, Any]) -> datetime | None:
    try:
        time = datetime.fromisoformat(text_of(row.get("timestamp")))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _kept_by_compactions(linked: list[Row]) -> dict[str, str]:
    """The first line that a compaction kept as it was → the line of the summary, behind which it now stands."""
    kept: dict[str, str] = {}
    for _, row in linked:
        segment = fields(fields(row.get("compactMetadata")).get("preservedSegment"))
        head, anchor = text_of(segment.get("headUuid")), text_of(segment.get("anchorUuid"))
        if head and anchor:
            kept[head] = anchor
    return kept


def _reply_id(row: dict[str, Any]) -> str:
    return text_of(fields(row.get("message")).get("id")) if row.get("type") == "assistant" else ""


def _content(row: dict[str, Any]) -> list[dict[str, Any]]:
    return objects(fields(row.get("message")).get("content"))


def _has_only_results(row: dict[str, Any]) -> bool:
    blocks = _content(row)
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


# Sessions written for it


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


# Repairs


_EMPTY: Final = "(no content)"


def repair_claude_code(draft: SessionDraft) -> list[SessionFault]:
    steps = (_shared_reply_ids, _ids_and_orphans, _open_calls, _empty_prompts, _unsigned)
    return [fault for step in steps for fault in step(draft, sent_rows(draft.rows))]


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
        *(
            id_fault(new, "lost", "Claude Code drops the second call and its result")
            if new.repeated
            else id_fault(new)
            for new in renamed
        ),
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


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    blocks = draft.change(use.line)["message"]["content"]
    index = use.path[2]
    content = blocks[index].get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    text = "\n".join([ORPHAN, *(text_of(part.get("text")) for part in parts if part.get("type") == "text")])
    blocks[index] = {"type": "text", "text": text}
    blocks += [part for part in parts if part.get("type") != "text"]
    return orphan_fault(use.line, use.id, "lost", f'Claude Code sends "{_EMPTY}" in its place')


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
