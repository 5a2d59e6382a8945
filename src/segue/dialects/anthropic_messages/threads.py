"""Message threads: the server keeps the conversation, and a request holds only what is new (THR-02 to THR-16)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from segue.dialects.anthropic_messages.betas import opens
from segue.dialects.server_side.continuations import Continuations, WholeRequest, body_of
from segue.dialects.streams import sse
from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.errors import SegueError

CARRIED: Final = ("system", "tools")
_FIELD: Final = "thread"
_BETAS: Final = "anthropic-beta"
_FIRST: Final = ("model", *CARRIED)
"""What comes before the messages in a body: it is the same in each request of a conversation, so that this is read once."""
_MARK: Final = "cache_control"
_CHANGES: Final = re.compile(rb'"tool_(?:addition|removal)"')
_PIECES: Final = {"text_delta": "text", "thinking_delta": "thinking"}


class _Reply(Struct):
    content: Raw = Raw(b"[]")
    stop_reason: str | None = None


class _Message(Struct):
    role: str
    content: Raw


_REPLY: Final = msgspec.json.Decoder(_Reply)
_MESSAGES: Final = msgspec.json.Decoder(list[Raw])


def _previous(fields: Mapping[str, Raw]) -> str | None:
    thread = msgspec.json.decode(fields.get(_FIELD, b"null"))
    if thread is None:
        return None
    match thread:
        case {"type": "create"}:
            return ""
        case {"type": "continue", "previous_message_id": str(name)} if name:
            return name
    return "?"  # whatever it is, we hold no such thread, and then clients send everything (THR-16)


def _joined(messages: Sequence[Raw]) -> bytes:
    """THR-10: marks for the cache belong to the turn that sent them."""
    return b",".join(map(_without_marks, messages))


def _whole(fields: Mapping[str, Raw], carried: Mapping[str, Raw], before: Sequence[bytes]) -> WholeRequest:
    """THR-03: what is absent is inherited, and what is present is used."""
    new = _MESSAGES.decode(fields["messages"]) if "messages" in fields else []
    given = {**carried, **fields}
    if any(_CHANGES.search(message) for message in new):
        new, given = _with_changed_tools(new, given)
    first: dict[str, Raw] = {name: given[name] for name in _FIRST if name in given}
    rest = {name: value for name, value in given.items() if name not in {*_FIRST, _FIELD, "messages"}}
    has_messages = before or "messages" in fields
    body = (
        body_of(first, "messages", (*before, *new), rest)
        if has_messages
        else msgspec.json.encode({**first, **rest})
    )
    return WholeRequest(body, tuple(new), {**first, **rest})


def _with_changed_tools(
    messages: Sequence[Raw], fields: Mapping[str, Raw]
) -> tuple[list[Raw], dict[str, Raw]]:
    """THR-09: system messages change the tools from there on. What is sent as a whole has a list of tools for all of it."""
    kept: list[Raw] = []
    listed = msgspec.json.decode(fields.get("tools", b"null")) or []
    tools = {_name_of(tool): tool for tool in listed}
    for message in messages:
        value = msgspec.json.decode(message)
        content = value.get("content") if isinstance(value, dict) and value.get("role") == "system" else None
        if not isinstance(content, list):
            kept.append(message)
            continue
        rest = [block for block in content if not _change_tools(tools, block)]
        if rest or not content:
            kept.append(Raw(msgspec.json.encode({**value, "content": rest})))
    return kept, {**fields, "tools": Raw(msgspec.json.encode([*tools.values()]))}


def _change_tools(tools: dict[str, Any], block: Any) -> bool:
    """Whether the block is a change of the tools, which is made then."""
    match block:
        case {"type": "tool_addition", "tool": {"definition": dict(definition)}}:
            tools[_name_of(definition)] = definition
        case {"type": "tool_removal", "tool": {"name": str(name)}}:
            tools.pop(name, None)
        case _:
            return False
    return True


def _name_of(tool: Any) -> str:
    return str(tool.get("name")) if isinstance(tool, dict) else ""


def _without_marks(message: Raw) -> bytes:
    if _MARK.encode() not in bytes(message):
        return message
    value = msgspec.json.decode(message)
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        value["content"] = [_unmarked(block) for block in value["content"]]
    return msgspec.json.encode(value)


def _unmarked(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    held = block.get("content")
    inner = {"content": [_unmarked(part) for part in held]} if isinstance(held, list) else {}
    return {name: value for name, value in block.items() if name != _MARK} | inner


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Without the beta: the provider gets no thread."""
    kept = {name: value for name, value in headers.items() if name != _BETAS}
    betas = [beta.strip() for beta in headers.get(_BETAS, "").split(",")]
    if others := [beta for beta in betas if beta and not opens(beta, _FIELD)]:
        kept[_BETAS] = ",".join(others)
    return kept


def _messages_of(reply: bytes) -> list[Raw]:
    content = _REPLY.decode(reply).content
    return [Raw(msgspec.json.encode(_Message("assistant", content)))] if bytes(content) != b"[]" else []


def _unfit(fields: Mapping[str, Raw], reply: bytes) -> SegueError | None:
    """THR-07: only a reply that paused is resumed without a new message."""
    given = msgspec.json.decode(fields.get("messages", b"[]"))
    if given != [] or _REPLY.decode(reply).stop_reason == "pause_turn":
        return None
    return InvalidRequestError(
        "A thread is continued with at least one message.",
        code="invalid_request",
        path="messages",
        hint="Only a reply that ended with pause_turn is resumed without any.",
    )


def _is_kept(reply: bytes) -> bool:
    """THR-08: a refusal is no part of a conversation."""
    return _REPLY.decode(reply).stop_reason != "refusal"


def _reply_in_stream(frames: bytes) -> bytes | None:
    """The message that the events of a stream make up, as it would have come whole (ANT-70)."""
    message: dict[str, Any] | None = None
    texts: dict[int, dict[str, list[str]]] = {}
    ended = False
    for frame in sse.FrameDecoder().feed(frames):
        try:
            event = msgspec.json.decode(frame.data)
        except msgspec.DecodeError:
            continue
        match event:
            case {"type": "message_start", "message": dict(begun)}:
                message = {**begun, "content": []}
            case {"type": "content_block_start", "content_block": dict(block)} if message is not None:
                message["content"].append(dict(block))
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                if message is None or not 0 <= index < len(message["content"]):
                    return None
                _add(message["content"][index], texts.setdefault(index, {}), delta)
            case {"type": "message_delta", "delta": dict(delta)} if message is not None:
                usage = {**(message.get("usage") or {}), **(event.get("usage") or {})}
                others = {
                    name: value for name, value in event.items() if name not in ("type", "delta", "usage")
                }
                message = {**message, **delta, **others, "usage": usage}
            case {"type": "message_stop"}:
                ended = True
    if message is None or not ended:
        return None
    for index, pieces in texts.items():
        _finish(message["content"][index], pieces)
    return msgspec.json.encode(message)


def _add(block: dict[str, Any], texts: dict[str, list[str]], delta: dict[str, Any]) -> None:
    kind = delta.get("type")
    if kind == "input_json_delta":
        texts.setdefault("input", []).append(str(delta.get("partial_json") or ""))
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
    elif isinstance(kind, str) and (name := _PIECES.get(kind)) is not None:
        texts.setdefault(name, []).append(str(delta.get(name) or ""))
    else:  # such as signature_delta: its members are the block's (ANT-71)
        block |= {name: value for name, value in delta.items() if name != "type"}


def _finish(block: dict[str, Any], texts: dict[str, list[str]]) -> None:
    for name, pieces in texts.items():
        text = "".join(pieces)
        if name != "input":
            block[name] = str(block.get(name) or "") + text
        elif text.strip():
            try:
                block[name] = msgspec.json.decode(text)
            except msgspec.DecodeError:
                block[name] = {}


THREADS: Final = Continuations(
    fields=(_FIELD,),
    previous=_previous,
    joined=_joined,
    whole=_whole,
    headers=_headers,
    messages_of=_messages_of,
    unfit=_unfit,
    is_kept=_is_kept,
    reply_in_stream=_reply_in_stream,
)
