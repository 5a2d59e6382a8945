"""Requests of one conversation, one after another: what was encoded once is not encoded again.

Steps are frozen and a render that continues an earlier one keeps them, so the bytes of all but the last few can be
kept too. The next request costs the encoding of what is new and one join of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Raw, structs

from segue.conversation.blocks import Text
from segue.conversation.options import Options
from segue.transcript.steps import ModelStep

if TYPE_CHECKING:
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.dialect import Dialect, EncodedRequest
    from segue.transcript.steps import Step, Transcript

_FIELDS = msgspec.json.Decoder(dict[str, Raw])


@final
class RequestCache:
    """Encodes the requests of one conversation for one dialect; each as `encode_request` would."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._steps: tuple[Step, ...] = ()
        self._system = ""
        self._card: ModelCard | None = None
        self._encoded: list[bytes] = []
        """The messages of the first steps, as JSON without the brackets around it; all but the first begin with a comma."""

    def encode(
        self, transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
    ) -> EncodedRequest:
        done = self._known_steps(transcript, card)
        cut = self._cut(transcript, done)
        if cut > done:
            part = structs.replace(transcript, steps=transcript.steps[:cut])
            # Messages are encoded alike whatever goes beside them, and without that it costs less.
            middle = self._dialect.encode_request(part, (), Options(model=options.model), card, after=done)
            messages = _without_brackets(_FIELDS.decode(middle.body)[self._dialect.messages_field])
            if messages:
                self._encoded = [*self._encoded, b"," + messages if self._encoded else messages]
            self._steps, self._system, self._card = part.steps, transcript.system, card
        encoded = self._dialect.encode_request(transcript, tools, options, card, after=cut)
        return structs.replace(encoded, body=self._joined(encoded.body)) if cut else encoded

    def _known_steps(self, transcript: Transcript, card: ModelCard) -> int:
        """How many of the steps were encoded before, just as they would be now."""
        count = len(self._steps)
        if (
            transcript.steps[:count] == self._steps
            and transcript.system == self._system
            and card == self._card
        ):
            return count
        self._steps, self._encoded = (), []
        return 0

    def _cut(self, transcript: Transcript, done: int) -> int:
        """Up to where the steps may be kept: before the last model's step, behind which the next request may differ."""
        steps = transcript.steps
        if any(
            type(block) is Text and block.seal is not None for step in steps[done:] for block in step.blocks
        ):
            # Whether such a block goes back depends on those before it.
            self._steps, self._encoded = (), []
            return 0
        return next((at for at in range(len(steps) - 1, done, -1) if type(steps[at]) is ModelStep), done)

    def _joined(self, body: bytes) -> bytes:
        """The body with all messages, not only the last."""
        pieces: list[bytes] = [b"{"]
        for name, value in _FIELDS.decode(body).items():
            pieces += (b"" if len(pieces) == 1 else b",", msgspec.json.encode(name), b":")
            if name != self._dialect.messages_field:
                pieces.append(bytes(value))
                continue
            last = _without_brackets(value)
            pieces += (b"[", *self._encoded, b"," if self._encoded and last else b"", last, b"]")
        pieces.append(b"}")
        return b"".join(pieces)


def _without_brackets(messages: Raw) -> bytes:
    return bytes(messages)[1:-1]
