"""Claude Code: a tree of lines with one content block each; the lines of one reply share its message id."""

from __future__ import annotations

from typing import Any

from segue.interop.session_readers.session_file import (
    Row,
    Said,
    SessionFile,
    current_branch,
    fields,
    messages_session,
    objects,
    text_of,
)

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
    main = _once([(number, row) for number, row in rows if not row.get("isSidechain")])
    spoken = [row for row in main if _is_message(row[1])]
    return _sent(main, spoken[-1]) if spoken else []


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


def _sent(main: list[Row], leaf: Row) -> list[Row]:
    """The messages of the newest branch, with all calls and results of its replies.

    Rewinds, edited prompts and crashes leave dead branches. The results of parallel calls are branches too: each
    hangs off the line of its own call, and the conversation continues from only one of them.
    """
    branch = _after_compaction(_linked(main), leaf)
    replies = {reply for _, row in branch if (reply := _reply_of(row))}
    on_branch = {number for number, _ in branch}
    calls = {text_of(row.get("uuid")) for _, row in main if _reply_of(row) in replies} - {""}
    kept = [
        row
        for row in main
        if _is_message(row[1])
        and (
            row[0] in on_branch
            or _reply_of(row[1]) in replies
            or (text_of(row[1].get("parentUuid")) in calls and _has_only_results(row[1]))
        )
    ]
    return [row for row in kept if not row[1].get("isApiErrorMessage")]


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


def _after_compaction(linked: list[Row], leaf: Row) -> list[Row]:
    """The branch to the leaf. It begins at a compaction, whose line has no parent: what was before is not sent."""
    end = next(row for row in linked if row[0] == leaf[0])
    return current_branch(linked, end, id_key="uuid", parent_key="parentUuid")


def _reply_of(row: dict[str, Any]) -> str:
    return text_of(fields(row.get("message")).get("id")) if row.get("type") == "assistant" else ""


def _has_only_results(row: dict[str, Any]) -> bool:
    blocks = objects(fields(row.get("message")).get("content"))
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
