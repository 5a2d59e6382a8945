"""Streamed replies of the Interactions wire as events: steps that grow, one after another (INT-09)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.conversation.events import TextDelta
from segue.dialects.gemini_interactions import wire
from segue.dialects.gemini_interactions.errors import error_from
from segue.dialects.gemini_interactions.reply import StepReader, ended, started
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkDecoder, ChunkReader
from segue.dialects.streams.garbled_lines import UNREADABLE, check_encoding, is_other_type

if TYPE_CHECKING:
    from segue.conversation.events import Event

_TYPES = frozenset(
    {"interaction.created", "interaction.start", "interaction.status_update", "interaction.completed"}
    | {"interaction.complete", "step.start", "step.delta", "step.stop", "error"}
)
_DONE = b"[DONE]"


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        frames = sse.FrameDecoder()
        super().__init__(_StreamReader(), frames.sole, frames.data)


class _StreamReader(ChunkReader):
    chunk = "an event"

    def __init__(self) -> None:
        super().__init__()
        self._steps = StepReader()
        self._begun = False
        self._usage: Any = None

    def read(self, data: bytes, events: list[Event]) -> None:
        if self.over or data.strip() == _DONE:
            return
        try:
            check_encoding(data)
            more = wire.MORE_TEXT.decode(data)
        except UNREADABLE:
            self._read_other(data, events)
            return
        step = self._steps.steps.get(more.index)
        if step is None or not step.open:
            self._steps.more(more.index, {"type": "text", "text": more.delta.text}, events)
        elif more.delta.text:
            step.said.append(more.delta.text)
            events.append(TextDelta(step.index, more.delta.text))

    def _read_other(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            event = wire.EVENTS.decode(data)
        except UNREADABLE:
            if not is_other_type(data, _TYPES):
                self._read_garbled(data, events)
            return
        place = event.index if event.index is not None else -1
        match event.event_type:
            case "interaction.created" | "interaction.start":
                self._begin(event.interaction or {}, events)
            case "step.start":
                self._steps.start(place, event.step, events)
            case "step.delta":
                self._steps.more(place, event.delta, events)
            case "step.stop":
                self._steps.stop(place, events)
            case "interaction.status_update":
                self._usage = event.usage or self._usage
            case "interaction.completed" | "interaction.complete":
                self._complete(event.interaction or {}, events)
            case "error":
                fields = event.error if isinstance(event.error, dict) else {"message": str(event.error)}
                self._fail(error_from(fields), events)
            case _:  # what is not known yet
                return

    def _begin(self, interaction: dict[str, Any], events: list[Event]) -> None:
        if not self._begun:
            self._begun = True
            events.append(started(interaction))

    def _complete(self, interaction: dict[str, Any], events: list[Event]) -> None:
        self._begin(interaction, events)
        steps = interaction.get("steps")
        for index, step in enumerate(steps if isinstance(steps, list) else ()):
            if not self._steps.knows(index):
                self._steps.start(index, step, events)
        for index in tuple(self._steps.steps):
            self._steps.stop(index, events)
        final = (
            interaction
            if interaction.get("usage") or self._usage is None
            else {
                **interaction,
                "usage": self._usage,
            }
        )
        self.over = True
        events += ended(final, self._steps)
