"""Claude Code: a tree of lines with one content block each; the lines of one reply share its message id.

The branch that is read is the one that Claude Code itself resumes. It notes in `last-prompt` lines where a session goes on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    fields,
    messages_session,
    objects,
    text_of,
)

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
    calls = {row["uuid"]: reply for _, row in tree.rows if (reply := _reply_of(row))}
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
    return _reply_of(row) or (calls.get(text_of(row.get("parentUuid")), "") if _has_only_results(row) else "")


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


def _reply_of(row: dict[str, Any]) -> str:
    return text_of(fields(row.get("message")).get("id")) if row.get("type") == "assistant" else ""


def _has_only_results(row: dict[str, Any]) -> bool:
    blocks = objects(fields(row.get("message")).get("content"))
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
