"""Replies that a server of OpenAI Responses keeps: continued by their id, listed, deleted, made in the background; and conversations
that it compacts. What other wires have of this too is in `stored_wires`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.json_safe import nests_too_deep
from segue.dialects.caches.tool_cache import GivenTools
from segue.dialects.openai_responses.errors import error_object
from segue.dialects.openai_responses.reply_encoder import response_object
from segue.dialects.openai_responses.wire import ENCODER
from segue.dialects.streams import sse
from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.errors import SegueError

_TRIGGER: Final = "compaction_trigger"
_COMPACTED: Final = ("compaction", "compaction_summary")
_PAGE: Final = 20
_NEAR: Final = 200
"""Within so many bytes of an event its response begins, if it has one."""
_ENDS: Final = ("response.completed", "response.incomplete")
_RUNNING: Final = ("queued", "in_progress")
_LEAD: Final = "Summary of the conversation so far:\n\n"
_REPEATED: Final = (
    *("instructions", "max_output_tokens", "max_tool_calls", "prompt_cache_key", "prompt_cache_retention"),
    *("safety_identifier", "temperature", "top_p", "user"),
)
"""Fields of a request that a reply repeats as they are, or as null."""


_LONG: Final = {"instructions": Raw(b"null"), "tools": Raw(b"[]")}
"""Fields that a response repeats and that can be long, each with what stands in its place where it is not there."""
_LONG_BYTES: Final = 1024


class _LastEvent(Struct):
    type: str
    response: Raw


class _Output(Struct):
    output: list[Raw] = []


_FRAME_END: Final = re.compile(rb"(\r?\n\r?\n)")
_SHOWN: Final = re.compile(
    rb"((?:[^\n]*\n)*data: ?)(\{[^{}]{0,%d}\"response\"\s*:\s*\{.*)" % _NEAR, re.DOTALL
)
"""An event that shows its response: what stands before it, and its data."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_OUTPUT: Final = msgspec.json.Decoder(_Output | None)
_END: Final = msgspec.json.Decoder(_LastEvent)


def keeps(body: Mapping[str, Any]) -> bool:
    """RESP-50: a response is stored unless the client declines."""
    return body.get("store") is not False


def insists(body: Mapping[str, Any]) -> bool:
    """Whether the client says itself that the reply is to be kept, where it need not: one that is not kept is of no use to it."""
    return body.get("store") is True


def previous(body: Mapping[str, Any]) -> str:
    """The id of the reply that a request continues; empty if there is none."""
    previous = body.get("previous_response_id")
    return previous if isinstance(previous, str) else ""


def conversation(body: Mapping[str, Any]) -> str:
    """The id of the conversation that a request adds to; empty if there is none."""
    named = body.get("conversation")
    named = named.get("id") if isinstance(named, dict) else named
    return named if isinstance(named, str) else ""


def repeated(body: Mapping[str, Any], continues: str = "", added_to: str = "") -> dict[str, Any]:
    """What a reply repeats of its request, and of what it leaves out the default. Not its `service_tier`: that says how the request
    was served."""
    added_to = added_to or conversation(body)
    shown = {
        **{name: body.get(name) for name in _REPEATED},
        "background": False,
        "conversation": {"id": added_to} if added_to else None,
        "metadata": _object(body.get("metadata")),
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": continues or previous(body) or None,
        "reasoning": {"effort": None, "summary": None, **_object(body.get("reasoning"))},
        "store": keeps(body),
        "text": {"format": {"type": "text"}, **_object(body.get("text"))},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "truncation": body.get("truncation") or "disabled",
    }
    # What can just be read of a request could not be written within a reply, nor be read again in there.
    return {name: value for name, value in shown.items() if not _is_too_deep(value)}


def _is_too_deep(value: Any) -> bool:
    if type(value) is GivenTools:  # the same in many requests
        return value.once("too_deep", lambda: nests_too_deep(value))
    return nests_too_deep(value)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def without_long_fields(reply: Raw) -> tuple[Raw, dict[str, Raw]]:
    """A response without what it repeats of its request at length, and that: mostly all replies of a conversation have the same."""
    if len(reply) < _LONG_BYTES:
        return reply, {}
    fields = _FIELDS.decode(reply)
    long = {name: fields[name] for name in _LONG if len(fields.get(name, b"")) >= _LONG_BYTES}
    if not long:
        return reply, {}
    return Raw(ENCODER.encode({**fields, **{name: _LONG[name] for name in long}})), long


def unserved(body: Mapping[str, Any]) -> SegueError | None:
    """Why a request cannot be served; None if it can."""
    if previous(body) and conversation(body):  # RST-01
        return InvalidRequestError(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.",
            code="mutually_exclusive_parameters",
            hint="Send one of them.",
        )
    if not isinstance(body.get("input") or "", str | list):
        return InvalidRequestError(
            "Invalid type for 'input': expected one of a string or array of objects.",
            code="invalid_type",
            path="input",
        )
    if not is_background(body) or keeps(body):
        return None
    return InvalidRequestError(
        "A response in the background has to be stored.",
        code="unsupported_value",
        path="background",
        hint="Send the request without store: false.",
    )


def input_items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return list(given) if isinstance(given, list) else []


def output_items(reply: Mapping[str, Any]) -> list[Any]:
    """Of a whole reply."""
    output = reply.get("output")
    return list(output) if isinstance(output, list) else []


def reply_items(reply: bytes) -> list[Raw]:
    """The same, as they are written."""
    held = _OUTPUT.decode(reply)
    return held.output if held is not None else []


def items_by_id(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The same, those that have an id."""
    items = [item for item in output_items(reply) if isinstance(item, dict)]
    return {item["id"]: item for item in items if isinstance(item.get("id"), str)}


def reply_in_stream(frames: bytes) -> bytes | None:
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


def references(body: Mapping[str, Any]) -> list[str]:
    """The ids of items of earlier replies that a request does not hold."""
    given = body.get("input")
    return [name for item in given if (name := _reference(item))] if isinstance(given, list) else []


def with_items(body: Mapping[str, Any], items: Mapping[str, Any]) -> tuple[dict[str, Any], SegueError | None]:
    """A request with these items, by their ids, in place of the references to them; and why it cannot be read without an item
    that is not among them. A thought may be missing."""
    whole: list[Any] = []
    unknown: SegueError | None = None
    for item in input_items(body):
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


def in_conversation(body: bytes, name: str) -> bytes:
    """CNV-02: a response that shows the conversation object that it was added to."""
    fields = _FIELDS.decode(body)
    return ENCODER.encode({**fields, "conversation": {"id": name}})


def stream_in_conversation(frames: bytes, name: str) -> bytes:
    """The same of each response in the frames of a stream; all others as they are."""
    pieces = _FRAME_END.split(frames)
    for at, piece in enumerate(pieces):
        if (shown := _SHOWN.match(piece)) is not None:
            event = _FIELDS.decode(shown[2])
            event["response"] = Raw(in_conversation(bytes(event["response"]), name))
            pieces[at] = shown[1] + ENCODER.encode(event)
    return b"".join(pieces)


def continued(body: Mapping[str, Any], before: Sequence[Any]) -> dict[str, Any]:
    """A request whose input begins with these items, and that names no earlier reply any more."""
    rest = {name: value for name, value in body.items() if name != "previous_response_id"}
    return {**rest, "input": [*before, *input_items(body)]}


def encode_input(items: Sequence[Any], query: Mapping[str, str]) -> bytes:
    """A page of the items of a request; the newest come first unless the client wants it otherwise."""
    return encode_page(
        [
            {"id": f"item_{number}", **item} if isinstance(item, dict) else {"content": item}
            for number, item in enumerate(items)
        ],
        query,
    )


def encode_page(items: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> bytes:
    """A page of items that have ids."""
    named = [*items]
    if query.get("order", "desc") != "asc":
        named.reverse()
    ids = [item.get("id") for item in named]
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


def asks_for_compaction(body: Mapping[str, Any]) -> bool:
    """RESP-52: a trigger is the last item."""
    items = input_items(body)
    return bool(items) and isinstance(items[-1], dict) and items[-1].get("type") == _TRIGGER


def encode_compaction(
    body: Mapping[str, Any], reply_id: str, item: dict[str, Any], created: int, usage: Mapping[str, int]
) -> bytes:
    """The user's messages as they were, then the item that stands for everything else."""
    kept = [
        given
        for given in input_items(body)
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


def without_compaction(body: Mapping[str, Any], opened: Callable[[str], str | None]) -> dict[str, Any] | None:
    """A request in which payloads of compacted items that can be opened are text again, and nothing asks for compaction; None
    if there is nothing of the kind."""
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


def encode_deleted(reply_id: str) -> bytes:
    return ENCODER.encode({"id": reply_id, "object": "response", "deleted": True})


def compacted_item(item_id: str, payload: str) -> dict[str, Any]:
    """The item that stands for a conversation. `payload`: what the client carries."""
    return {"id": f"cmp_{item_id}", "type": "compaction", "encrypted_content": payload}


def not_found(reply_id: str) -> SegueError:
    return InvalidRequestError(
        f"Response with id '{reply_id}' not found.",
        code="not_found",
        status=404,
        hint="Replies are kept for the callers that asked for them, for as long as gateway.memory.days.",
    )


def is_cancellable(reply: Mapping[str, Any]) -> bool:
    """Whether a client may ask to cancel a reply that is complete: nothing happens then."""
    return reply.get("background") is True


def events_seen(query: Mapping[str, str]) -> int:
    """How many events of a reply a client that comes back has got."""
    after = query.get("starting_after", "")
    return int(after[:9]) + 1 if after.isascii() and after.isdigit() else 0


def asks_for_input(query: Mapping[str, str]) -> bool:  # noqa: ARG001 - as on every wire
    """The input has a path of its own."""
    return False


def can_be_continued(reply: Mapping[str, Any] | None) -> bool:
    """Whether a reply came to an end that a request may build on."""
    return reply is None or reply.get("status", "completed") in ("completed", "incomplete")


def is_running(reply: Mapping[str, Any]) -> bool:
    """Whether a reply is not complete yet."""
    return reply.get("status") in _RUNNING


@final
class NumberedEvents:
    """The events of one response under the id and the numbers that its client knows, from the frames of its reply."""

    def __init__(self, reply_id: str, model: str, created: int, repeated: Mapping[str, Any]) -> None:
        queued = response_object(reply_id, model, status="queued", created=created, repeated=repeated)
        self._fields = {"id": reply_id, "created_at": created, "background": True, "store": True}
        self.reply: dict[str, Any] = {**queued, **self._fields}
        """The response as it stands."""
        self.frames: list[bytes] = []
        """Each at the place of its number."""
        self._decoder = sse.FrameDecoder()
        for kind in ("response.created", "response.queued"):
            self._add({"type": kind, "response": self.reply})

    def feed(self, data: bytes) -> None:
        """More of the reply."""
        for frame in self._decoder.feed(data):
            try:
                event = msgspec.json.decode(frame.data)
            except msgspec.DecodeError:  # a mark of the end
                continue
            kind = event.get("type")
            if kind == "error":
                self._end("failed", {name: event.get(name) for name in ("code", "message")})
            elif kind != "response.created":  # it was sent when the request came
                self._add(event)

    def fail(self, error: SegueError) -> None:
        fields = error_object(error)[1]
        self._end("failed", {"code": fields["code"] or "server_error", "message": fields["message"]})

    def cancel(self) -> None:
        self._end("cancelled", None)

    def _end(self, status: str, error: dict[str, Any] | None) -> None:
        if not is_running(self.reply):
            return
        self.reply = {**self.reply, "status": status, "error": error}
        # A cancelled response has no event of its own.
        self._add(
            {"type": f"response.{'failed' if status == 'failed' else 'incomplete'}", "response": self.reply}
        )

    def _add(self, event: dict[str, Any]) -> None:
        if isinstance(event.get("response"), dict):
            event["response"] = self.reply = {**event["response"], **self._fields}
        kind = str(event.get("type"))
        numbered = {**event, "sequence_number": len(self.frames)}
        self.frames.append(sse.encode(ENCODER.encode(numbered), kind))


def new_events(reply_id: str, model: str, created: int, repeated: Mapping[str, Any]) -> NumberedEvents:
    return NumberedEvents(reply_id, model, created, repeated)


def last_frame(reply: Mapping[str, Any]) -> bytes:
    """The event that ends the stream of a reply, with all of it: for a client that comes back when the others are gone."""
    status = reply.get("status")
    kind = f"response.{status if status in ('completed', 'failed') else 'incomplete'}"
    return sse.encode(ENCODER.encode({"type": kind, "response": reply, "sequence_number": 1 << 20}), kind)


def is_background(body: Mapping[str, Any]) -> bool:
    """Whether a client asks for a reply now and fetches it later."""
    return body.get("background") is True


def foreground(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request for a stream that is waited for."""
    return {**{name: value for name, value in body.items() if name != "background"}, "stream": True}
