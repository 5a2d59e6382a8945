"""Interactions that a server keeps: continued by their ids, fetched, deleted, made in the background (INT-06, INT-07, INT-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.dialects.gemini_interactions.errors import error_object
from segue.dialects.gemini_interactions.reply_encoder import encode_reply, interaction_object
from segue.dialects.gemini_interactions.request import steps_of
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.gemini_interactions.stream import ReplyDecoder
from segue.dialects.gemini_interactions.wire import ENCODER
from segue.dialects.streams import sse
from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.events import Event
    from segue.errors import SegueError

_RUNNING: Final = ("queued", "in_progress")
_ENDS: Final = ("completed", "requires_action", "incomplete", "budget_exceeded")
"""Statuses of an interaction that a request may build on."""
_DONE: Final = sse.encode(b"[DONE]", "done")


class _Steps(Struct):
    steps: list[Raw] = []


_STEPS: Final = msgspec.json.Decoder(_Steps | None)


def keeps(body: Mapping[str, Any]) -> bool:
    return body.get("store") is not False


def insists(body: Mapping[str, Any]) -> bool:
    return body.get("store") is True


def previous(body: Mapping[str, Any]) -> str:
    named = body.get("previous_interaction_id")
    return named if isinstance(named, str) else ""


def repeated(body: Mapping[str, Any], continues: str = "", added_to: str = "") -> dict[str, Any]:
    """INT-05. No conversation has an id here."""
    del added_to
    parent = continues or previous(body)
    return {"previous_interaction_id": parent} if parent else {}


def unserved(body: Mapping[str, Any]) -> SegueError | None:
    if not is_background(body) or keeps(body):
        return None
    return InvalidRequestError(
        "Background interactions must be stored.",
        code="invalid_request",
        path="background",
        hint="Send the request without store: false.",
    )


def input_items(body: Mapping[str, Any]) -> list[Any]:
    return steps_of(body.get("input"))


def reply_items(reply: bytes) -> list[Raw]:
    held = _STEPS.decode(reply)
    return held.steps if held is not None else []


def continued(body: Mapping[str, Any], before: Sequence[Any]) -> dict[str, Any]:
    """INT-06: tools, the system instruction and the settings do not carry over."""
    rest = {name: value for name, value in body.items() if name != "previous_interaction_id"}
    return {**rest, "input": [*before, *input_items(body)]}


def can_be_continued(reply: Mapping[str, Any] | None) -> bool:
    return reply is None or reply.get("status", "completed") in _ENDS


def is_running(reply: Mapping[str, Any]) -> bool:
    return reply.get("status") in _RUNNING


def is_cancellable(reply: Mapping[str, Any]) -> bool:
    return reply.get("status") == "cancelled"


def is_background(body: Mapping[str, Any]) -> bool:
    return body.get("background") is True


def foreground(body: Mapping[str, Any]) -> dict[str, Any]:
    """An agent works only in the background: that is left to Gemini, whose stream is followed."""
    if body.get("agent") is not None:
        return {**body, "stream": True}
    return {**{name: value for name, value in body.items() if name != "background"}, "stream": True}


def not_found(reply_id: str) -> SegueError:
    return InvalidRequestError(
        f"Interaction {reply_id} not found.",
        code="not_found",
        status=404,
        hint="Interactions are kept for the callers that asked for them, for as long as gateway.memory.days.",
    )


def events_seen(query: Mapping[str, str]) -> int:
    number = query.get("last_event_id", "").rpartition(".")[2]
    return int(number[:9]) + 1 if number.isascii() and number.isdigit() else 0


def asks_for_input(query: Mapping[str, str]) -> bool:
    return query.get("include_input", "").lower() == "true"


def encode_deleted(reply_id: str) -> bytes:
    del reply_id
    return b"{}"


def reply_in_stream(frames: bytes) -> bytes | None:
    """The last event need not hold the steps."""
    for frame in reversed(frames.replace(b"\r\n", b"\n").rstrip().split(b"\n\n")):
        data = b"".join([line[5:] for line in frame.split(b"\n") if line.startswith(b"data:")])
        if b"interaction.complete" not in data:
            continue
        interaction = _decoded(data).get("interaction")
        whole = isinstance(interaction, dict) and "steps" in interaction
        return ENCODER.encode(interaction) if whole else None
    return None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError:  # a mark of the end
        return {}
    return event if isinstance(event, dict) else {}


@final
class InteractionEvents:
    """The events of one interaction under the id and the numbers that its client knows, from the frames of its reply."""

    def __init__(self, reply_id: str, model: str, created: int, repeated: Mapping[str, Any]) -> None:
        self.reply: dict[str, Any] = interaction_object(
            reply_id, model, status="in_progress", created=created, repeated=repeated
        )
        """The interaction as it stands."""
        self.frames: list[bytes] = []
        self._id = reply_id
        self._frames = sse.FrameDecoder()
        self._decoder = ReplyDecoder()
        self._events: list[Event] = []
        self._add({"event_type": "interaction.created", "interaction": self.reply})
        self._add(
            {
                "event_type": "interaction.status_update",
                "interaction_id": reply_id,
                "status": "in_progress",
            }
        )

    def feed(self, data: bytes) -> None:
        """More of the reply."""
        self._events += self._decoder.feed(data)
        for frame in self._frames.feed(data):
            event = _decoded(frame.data)
            match event.get("event_type"):
                case "error":
                    self._end("failed", event.get("error"))
                case "interaction.completed" | "interaction.complete":
                    self._complete(event)
                case "step.start" | "step.delta" | "step.stop":
                    self._add(event)

    def fail(self, error: SegueError) -> None:
        self._end("failed", error_object(error)[1])

    def cancel(self) -> None:
        self._end("cancelled", None)

    def _complete(self, event: dict[str, Any]) -> None:
        given = event.get("interaction")
        final = given if isinstance(given, dict) else {}
        if "steps" not in final:
            said = msgspec.json.decode(encode_reply(fold(self._events, Origin(NAME))))
            final = {**final, "steps": said.get("steps", [])}
        kept = {name: self.reply[name] for name in ("id", "object", "model", "created")}
        self.reply = {**final, **kept}
        self._add({"event_type": "interaction.completed", "interaction": self.reply})
        self.frames.append(_DONE)

    def _end(self, status: str, error: Any) -> None:
        if not is_running(self.reply):
            return
        self.reply = {**self.reply, "status": status}
        if isinstance(error, dict):
            self.reply["errors"] = [error]
            self._add({"event_type": "error", "error": error})
        else:
            self._add({"event_type": "interaction.completed", "interaction": self.reply})
        self.frames.append(_DONE)

    def _add(self, event: dict[str, Any]) -> None:
        kind = str(event["event_type"])
        numbered = {**event, "event_id": f"{self._id}.{len(self.frames)}"}
        self.frames.append(sse.encode(ENCODER.encode(numbered), kind))


def new_events(reply_id: str, model: str, created: int, repeated: Mapping[str, Any]) -> InteractionEvents:
    return InteractionEvents(reply_id, model, created, repeated)


def last_frame(reply: Mapping[str, Any]) -> bytes:
    event: dict[str, Any] = {"event_type": "interaction.completed", "interaction": reply}
    event["event_id"] = f"{reply.get('id')}.{1 << 20}"
    return sse.encode(ENCODER.encode(event), "interaction.completed") + _DONE
