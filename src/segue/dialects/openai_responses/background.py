"""Responses in the background: what a client sees of one that is not complete yet, and its numbered events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.dialects import sse
from segue.dialects.openai_responses.errors import error_object
from segue.dialects.openai_responses.reply_encoder import response_object
from segue.dialects.openai_responses.wire import ENCODER
from segue.dialects.server import BackgroundFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.errors import SegueError

_RUNNING: Final = ("queued", "in_progress")


def _is_running(reply: Mapping[str, Any]) -> bool:
    return reply.get("status") in _RUNNING


@final
class NumberedEvents:
    """The events of one response under the id and the numbers that its client knows, from the frames of its reply."""

    def __init__(self, reply_id: str, model: str, created: int) -> None:
        queued = response_object(reply_id, model, status="queued", created=created)
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
        if not _is_running(self.reply):
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


def _last_frame(reply: Mapping[str, Any]) -> bytes:
    """For a client that comes back when the other events are gone."""
    status = reply.get("status")
    kind = f"response.{status if status in ('completed', 'failed') else 'incomplete'}"
    return sse.encode(ENCODER.encode({"type": kind, "response": reply, "sequence_number": 1 << 20}), kind)


BACKGROUND = BackgroundFacts(
    asked=lambda body: body.get("background") is True,
    foreground=lambda body: {
        **{name: value for name, value in body.items() if name != "background"},
        "stream": True,
    },
    is_running=_is_running,
    name=lambda own: f"resp_{own}",
    open_events=NumberedEvents,
    last_frame=_last_frame,
)
