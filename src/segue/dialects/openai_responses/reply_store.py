"""Responses that a server keeps: continued by their id, listed, deleted; and conversations that it compacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from segue.dialects.openai_responses.background import BACKGROUND
from segue.dialects.openai_responses.wire import ENCODER
from segue.dialects.server import StoredReplies
from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.errors import SegueError

_TRIGGER: Final = "compaction_trigger"
_COMPACTED: Final = ("compaction", "compaction_summary")
_PAGE: Final = 20
_ENDS: Final = ("response.completed", "response.incomplete")
_LEAD: Final = "Summary of the conversation so far:\n\n"


class _LastEvent(Struct):
    type: str
    response: Raw


_END: Final = msgspec.json.Decoder(_LastEvent)


def _keeps(body: Mapping[str, Any]) -> bool:
    """RESP-50: a response is stored unless the client declines."""
    return body.get("store") is not False


def _insists(body: Mapping[str, Any]) -> bool:
    return body.get("store") is True


def _previous(body: Mapping[str, Any]) -> str:
    previous = body.get("previous_response_id")
    return previous if isinstance(previous, str) else ""


def _unserved(body: Mapping[str, Any]) -> SegueError | None:
    if not BACKGROUND.asked(body) or _keeps(body):
        return None
    return InvalidRequestError(
        "A response in the background has to be stored.",
        code="unsupported_value",
        path="background",
        hint="Send the request without store: false.",
    )


def _input_items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return list(given) if isinstance(given, list) else []


def _output_items(reply: Mapping[str, Any]) -> list[Any]:
    output = reply.get("output")
    return list(output) if isinstance(output, list) else []


def _items_by_id(reply: Mapping[str, Any]) -> dict[str, Any]:
    items = [item for item in _output_items(reply) if isinstance(item, dict)]
    return {item["id"]: item for item in items if isinstance(item.get("id"), str)}


def _reply_in_stream(frames: bytes) -> bytes | None:
    """RESP-62: the last event holds all of the response."""
    for frame in reversed(frames.replace(b"\r\n", b"\n").rstrip().split(b"\n\n")):
        data = b"".join([line[5:] for line in frame.split(b"\n") if line.startswith(b"data:")])
        try:
            event = _END.decode(data)
        except msgspec.DecodeError:
            continue  # such as [DONE]
        return bytes(event.response) if event.type in _ENDS else None
    return None


def _reference(item: Any) -> str:
    """The id that it refers to; empty if it is an item itself."""
    if not isinstance(item, dict) or item.get("type") != "item_reference":
        return ""
    name = item.get("id")
    return name if isinstance(name, str) else ""


def _references(body: Mapping[str, Any]) -> list[str]:
    given = body.get("input")
    return [name for item in given if (name := _reference(item))] if isinstance(given, list) else []


def _with_items(
    body: Mapping[str, Any], items: Mapping[str, Any]
) -> tuple[dict[str, Any], SegueError | None]:
    whole: list[Any] = []
    unknown: SegueError | None = None
    for item in _input_items(body):
        name = _reference(item)
        if not name or name in items:
            whole.append(items[name] if name else item)
        elif name.startswith("rs_"):
            whole.append(item)
        else:
            unknown = unknown or _unknown_item(name)
    return {**body, "input": whole}, unknown


def _unknown_item(name: str) -> SegueError:
    return InvalidRequestError(
        f"Item with id '{name}' not found.",
        code="not_found",
        path="input",
        status=404,
        hint="Send the item itself, as it is in the output of its response, instead of a reference to it.",
    )


def _continued(body: Mapping[str, Any], before: Sequence[Any]) -> dict[str, Any]:
    rest = {name: value for name, value in body.items() if name != "previous_response_id"}
    return {**rest, "input": [*before, *_input_items(body)]}


def _encode_input(items: Sequence[Any], query: Mapping[str, str]) -> bytes:
    """A page of the items of a request; the newest come first unless the client wants it otherwise."""
    named = [
        {"id": f"item_{number}", **item} if isinstance(item, dict) else item
        for number, item in enumerate(items)
    ]
    if query.get("order", "desc") != "asc":
        named.reverse()
    ids = [item.get("id") for item in named if isinstance(item, dict)]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    limit = query.get("limit", "")
    size = min(max(int(limit), 1), 100) if limit.isascii() and limit.isdigit() and len(limit) < 9 else _PAGE
    page = named[start : start + size]
    return ENCODER.encode(
        {
            "object": "list",
            "data": page,
            "first_id": ids[start] if page else None,
            "last_id": ids[start + len(page) - 1] if page else None,
            "has_more": start + size < len(named),
        }
    )


def _asks_for_compaction(body: Mapping[str, Any]) -> bool:
    """RESP-52: a trigger is the last item."""
    items = _input_items(body)
    return bool(items) and isinstance(items[-1], dict) and items[-1].get("type") == _TRIGGER


def _encode_compaction(
    body: Mapping[str, Any], reply_id: str, item: dict[str, Any], created: int, usage: Mapping[str, int]
) -> bytes:
    """The user's messages as they were, then the item that stands for everything else."""
    kept = [
        given
        for given in _input_items(body)
        if isinstance(given, dict)
        and given.get("role") == "user"
        and given.get("type", "message") == "message"
    ]
    read, written = usage.get("input", 0), usage.get("output", 0)
    counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return ENCODER.encode(
        {
            "id": f"resp_{reply_id}",
            "object": "response.compaction",
            "created_at": created,
            "output": [*kept, item],
            "usage": counts,
        }
    )


def _without_compaction(
    body: Mapping[str, Any], opened: Callable[[str], str | None]
) -> dict[str, Any] | None:
    items = body.get("input")
    if not isinstance(items, list):
        return None
    changed = [_plain(item, opened) for item in items]
    kept = [item for item in changed if not (isinstance(item, dict) and item.get("type") == _TRIGGER)]
    if len(kept) == len(items) and all(one is other for one, other in zip(kept, items, strict=True)):
        return None
    return {**body, "input": kept}


def _plain(item: Any, opened: Callable[[str], str | None]) -> Any:
    if not isinstance(item, dict) or item.get("type") not in _COMPACTED:
        return item
    payload = item.get("encrypted_content")
    text = opened(payload) if isinstance(payload, str) else None
    if text is None:
        return item
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _LEAD + text}]}


STORED = StoredReplies(
    keeps=_keeps,
    insists=_insists,
    previous=_previous,
    references=_references,
    with_items=_with_items,
    unserved=_unserved,
    input_items=_input_items,
    output_items=_output_items,
    items_by_id=_items_by_id,
    reply_in_stream=_reply_in_stream,
    continued=_continued,
    encode_input=_encode_input,
    encode_deleted=lambda reply_id: ENCODER.encode({"id": reply_id, "object": "response", "deleted": True}),
    asks_for_compaction=_asks_for_compaction,
    compacted_item=lambda item_id, payload: {
        "id": f"cmp_{item_id}",
        "type": "compaction",
        "encrypted_content": payload,
    },
    encode_compaction=_encode_compaction,
    without_compaction=_without_compaction,
    marks=(b'"item_reference"', b'"compaction'),
    background=BACKGROUND,
)
