"""A reply on its way from the events of its provider to the bytes for a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.conversation.events import ReasoningDelta, TextDelta
from segue.dialects.streams.chunk_template import ChunkTemplate, json_text

if TYPE_CHECKING:
    from segue.conversation.events import Event
    from segue.dialects.dialect import ReplyEncoder
    from segue.transcript.respond import Responder


@final
class ReplyTranslation:
    """Nearly all portions are more of the block that is open: they are written without a look at the rest."""

    __slots__ = ("_around", "_encoder", "_responder", "_text", "_thought")

    def __init__(self, responder: Responder, encoder: ReplyEncoder) -> None:
        self._responder = responder
        self._encoder = encoder
        self._text = self._thought = -1
        """The provider's index of the block that is open; -1 if there is none."""
        self._around = ChunkTemplate(b"", b"")
        """How more of it is written."""

    def feed(self, events: list[Event]) -> bytes:
        """What the client gets for the events of one portion."""
        sent: list[bytes] = []
        for event in events:
            if (type(event) is TextDelta and event.index == self._text) or (
                type(event) is ReasoningDelta and event.index == self._thought
            ):
                around = self._around
                if around.pieces is not None:
                    around.pieces.append(event.text)
                behind = around.behind if around.tails is None else next(around.tails)
                sent += (around.before, json_text(event.text), behind)
            else:
                sent.append(self.encode(self.respond([event])))
        return b"".join(sent)

    def respond(self, events: list[Event]) -> list[Event]:
        """The events for the client."""
        return [shown for event in events for shown in self._responder.feed(event)]

    def encode(self, shown: list[Event]) -> bytes:
        sent = b"".join(map(self._encoder.feed, shown))
        self._expect(shown[-1] if shown else None)
        return sent

    def close(self) -> bytes:
        """Nothing more will come."""
        return self.encode(self._responder.close()) + self._encoder.close()

    def _expect(self, last: Event | None) -> None:
        responder = self._responder
        self._text = self._thought = -1
        if (type(last) is TextDelta or type(last) is ReasoningDelta) and last.index == responder.outer:
            around = self._encoder.template(last)
            if around is not None:
                self._around, self._text, self._thought = around, responder.text, responder.thought
