"""pi: a tree of entries. Signatures are kept for the replies that came over the Messages wire.

pi closes calls itself, but sends ids and results as they stand, and fails at replies without counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from segue.conversation.blocks import Media
from segue.interop.agents.session_draft import (
    ORPHAN,
    REFUSED,
    IdUse,
    SessionFault,
    id_fault,
    is_legal_id,
    orphan_fault,
    rename_calls,
)
from segue.interop.agents.session_file import (
    Row,
    Said,
    SessionFile,
    current_branch,
    fields,
    image_block,
    messages_session,
    milliseconds,
    moments,
    objects,
    short_id,
    stamp,
    text_block,
    text_of,
)
from segue.interop.agents.session_steps import ModelReply, Prompt, StoredCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from segue.interop.agents.session_draft import SessionDraft
    from segue.interop.agents.session_file import SessionPlan

_WIRE, _HOME = "anthropic-messages", "anthropic"


def read_pi(rows: list[Row]) -> SessionFile | None:
    if not any(row.get("type") == "session" and "cwd" in row and "id" in row for _, row in rows):
        return None
    said = [
        Said(message, number, _model(entry))
        for number, entry in sent_entries(rows)
        if (message := _message(entry)) and message["content"]
    ]
    return messages_session("pi session", said, **_settings(_branch(rows)))


def sent_entries(rows: list[Row]) -> list[Row]:
    """The entries that the next request holds."""
    return _after_compaction(_branch(rows))


def _branch(rows: list[Row]) -> list[Row]:
    entries = [row for row in rows if row[1].get("type") != "session"]
    if any(isinstance(row.get("parentId"), str) for _, row in entries):
        return current_branch(entries, entries[-1], id_key="id", parent_key="parentId")
    return entries


def _model(entry: dict[str, Any]) -> str | None:
    message = fields(entry.get("message"))
    if message.get("role") != "assistant":
        return None
    return text_of(message.get("model")) if _is_signed(message) else ""


def _is_signed(message: dict[str, Any]) -> bool:
    """Whether its signatures are those of the Messages wire's own provider."""
    return message.get("api") == _WIRE and message.get("provider", _HOME) == _HOME


def _after_compaction(entries: list[Row]) -> list[Row]:
    """What is sent: the last compaction's summary, the entries it kept, and those that follow."""
    cut = next(
        (at for at in reversed(range(len(entries))) if entries[at][1].get("type") == "compaction"), None
    )
    if cut is None:
        return entries
    kept = entries[cut][1].get("firstKeptEntryId")
    first = next((at for at in range(cut) if entries[at][1].get("id") == kept), cut)
    return [entries[cut], *entries[first:cut], *entries[cut + 1 :]]


def _message(entry: dict[str, Any]) -> dict[str, Any] | None:
    message = fields(entry.get("message"))
    match entry.get("type"), message.get("role"):
        case (("compaction" | "branch_summary"), _):
            return {"role": "user", "content": text_of(entry.get("summary"))}
        case "custom_message", _:
            return {"role": "user", "content": _blocks(entry.get("content"))}
        case "message", ("user" | "custom"):
            return {"role": "user", "content": _blocks(message.get("content"))}
        case "message", "assistant":
            return {"role": "assistant", "content": _reply(message)}
        case "message", "toolResult":
            return {"role": "user", "content": [_read_result(message)]}
        case "message", "bashExecution" if not message.get("excludeFromContext"):
            command, output = text_of(message.get("command")), text_of(message.get("output"))
            return {"role": "user", "content": f"I ran this command:\n{command}\n\nIts output:\n{output}"}
        case _:
            return None


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks: list[dict[str, Any]] = []
    for block in objects(content):
        match block.get("type"):
            case "text":
                blocks.append(text_block(text_of(block.get("text"))))
            case "image":
                blocks.append(image_block(block.get("mimeType"), block.get("data")))
    return blocks


def _reply(message: dict[str, Any]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in objects(message.get("content")):
        match block.get("type"):
            case "text":
                blocks.append(text_block(text_of(block.get("text"))))
            case "thinking":
                blocks.append(_thinking(block, signed=_is_signed(message)))
            case "toolCall":
                call = {"id": _call_id(block.get("id")), "name": text_of(block.get("name"))}
                blocks.append({"type": "tool_use", **call, "input": block.get("arguments") or {}})
    return blocks


def _thinking(block: dict[str, Any], *, signed: bool) -> dict[str, Any]:
    signature = text_of(block.get("thinkingSignature")) if signed else ""
    if signature and block.get("redacted"):
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text_of(block.get("thinking")), "signature": signature}


def _call_id(value: object) -> str:
    """A call's id; on the Responses wire, pi writes the item's id behind it."""
    return text_of(value).partition("|")[0]


def _read_result(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": _call_id(message.get("toolCallId")),
        "content": _blocks(message.get("content")),
        "is_error": bool(message.get("isError")),
    }


def _settings(entries: list[Row]) -> dict[str, Any]:
    model = system = ""
    tools: dict[str, dict[str, Any]] = {}
    for _, entry in entries:
        message = fields(entry.get("message"))
        if message.get("role") == "assistant" and _is_signed(message):
            model = text_of(message.get("model")) or model
        if message.get("role") == "system":
            sections = (message.get("content"), *fields(message.get("sections")).values())
            system = "\n\n".join(text for section in sections if (text := text_of(section))) or system
            for tool in objects(message.get("toolsAdded")):
                tools[text_of(tool.get("name"))] = _tool(tool)
    return {"model": model, "system": system, "tools": list(tools.values())}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    schema = fields(tool.get("parameters")) or {"type": "object"}
    return {
        "name": text_of(tool.get("name")),
        "description": text_of(tool.get("description")),
        "input_schema": schema,
    }


# Sessions written for it


_COUNTS: Final = ("input", "output", "cacheRead", "cacheWrite")


@final
class PiWriter:
    """Entries whose provider is none that pi knows, so that no seal is looked for."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        return [
            {
                "type": "session",
                "version": 3,
                "id": plan.id,
                "timestamp": stamp(plan.began),
                "cwd": plan.folder,
            }
        ]

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        return [{**row, "id": plan.id} if row.get("type") == "session" else row for row in rows]

    def file(self, plan: SessionPlan, home: Path) -> Path:
        folder = plan.folder.strip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
        return home / f"--{folder}--" / f"{plan.began:%Y-%m-%dT%H-%M-%S}-000Z_{plan.id}.jsonl"

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return _Rows(plan, after).written()


class _Rows:
    def __init__(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> None:
        entries = [row for row in after if row.get("type") != "session"]
        self._plan = plan
        self._parent = text_of(entries[-1].get("id")) or None if entries else None
        self._taken = {text_of(row.get("id")) for row in entries}
        self._rows: list[dict[str, Any]] = []
        self._moments = moments(plan.began)

    def written(self) -> list[dict[str, Any]]:
        if self._plan.note:
            note = {"customType": "segue", "content": self._plan.note, "display": False}
            self._add("custom_message", **note)
        for step in self._plan.steps:
            if type(step) is Prompt:
                blocks = [
                    _image(part) if type(part) is Media else text_block(part.text) for part in step.parts
                ]
                self._message({"role": "user", "content": blocks})
            elif type(step) is ModelReply:
                self._reply(step)
        return self._rows

    def _reply(self, reply: ModelReply) -> None:
        blocks = [text_block(reply.text)] if reply.text else []
        blocks += [
            {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in reply.calls
        ]
        self._message(
            {
                "role": "assistant",
                "content": blocks,
                "api": "segue",
                "provider": "segue",
                "model": reply.model or "unknown",
                "usage": _no_counts(),
                "stopReason": "toolUse" if reply.calls else "stop",
            }
        )
        for call in reply.calls:
            self._message(_result(call))

    def _message(self, message: dict[str, Any]) -> None:
        self._add(
            "message", message={**message, "timestamp": milliseconds(self._plan.began) + len(self._rows)}
        )

    def _add(self, kind: str, **more: Any) -> None:
        number = 0
        while (entry := short_id(self._plan, len(self._rows), number)[:8]) in self._taken:
            number += 1
        self._taken.add(entry)
        row = {
            "type": kind,
            "id": entry,
            "parentId": self._parent,
            "timestamp": stamp(next(self._moments)),
            **more,
        }
        self._rows.append(row)
        self._parent = entry


def _image(media: Media) -> dict[str, Any]:
    return {"type": "image", "data": media.data, "mimeType": media.mime}


def _result(call: StoredCall) -> dict[str, Any]:
    shown = [text_block(call.output)] if call.output or not call.media else []
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [*shown, *map(_image, call.media)],
        "isError": call.failed,
    }


def _no_counts() -> dict[str, Any]:
    cost = dict.fromkeys((*_COUNTS, "total"), 0)
    return {**dict.fromkeys((*_COUNTS, "totalTokens"), 0), "cost": cost}


# Repairs


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
        *map(id_fault, renamed),
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


def _orphan(draft: SessionDraft, use: IdUse) -> SessionFault:
    entry = draft.change(use.line)
    message: dict[str, Any] = entry["message"]
    content = [{"type": "text", "text": ORPHAN}, *objects(message.get("content"))]
    entry["message"] = {"role": "user", "content": content, **_only(message, "timestamp")}
    return orphan_fault(use.line, use.id, "refused", REFUSED)


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
