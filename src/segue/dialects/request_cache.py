"""Requests of one conversation, one after another: what was encoded once is not encoded again.

Steps are frozen and a render that continues an earlier one keeps them, so the bytes of their messages can be kept too.
The next request costs the encoding of what is new and one join of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Origin, Text
from segue.conversation.extra import Extra
from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.dialects.request_messages import is_leading_note
from segue.transcript.repairs import Repair
from segue.transcript.steps import ModelStep, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.tools import ToolSpec
    from segue.dialects.dialect import Dialect
    from segue.transcript.steps import Transcript

_ENCODER = msgspec.json.Encoder()


@final
class EncodedPrefix(Struct, frozen=True, eq=False):
    """The steps of a transcript and the bytes of their messages."""

    steps: tuple[Step, ...] = ()
    pieces: tuple[memoryview, ...] = ()
    """Messages as JSON, some in each, with commas between them."""
    ends: tuple[tuple[int, int], ...] = ()
    """Where a longer transcript may continue: after so many steps, which are so many pieces. The longest is last."""
    system: str = ""
    target: Origin | None = None
    card: ModelCard | None = None
    head: Extra | None = None
    """How the system prompt came, where it stands before the messages."""


@final
class EncodedBody(Struct, frozen=True):
    """The bytes of a request, what of tools and options could not be sent, and what the next one begins with."""

    body: bytes
    repairs: tuple[Repair, ...]
    prefix: EncodedPrefix


def encode_after(
    prefix: EncodedPrefix,
    dialect: Dialect,
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
) -> EncodedBody:
    """The request as `encode_request` would encode it."""
    head = options.own.container if options.own is not None else None
    steps, count = _known(prefix, transcript, card, head)
    if _depends_on_earlier(transcript, steps):
        whole = dialect.encode_request(transcript, tools, options, card)
        return EncodedBody(whole.body, whole.repairs, EncodedPrefix())
    encoded = dialect.encode_request(transcript, tools, options, card, after=steps)
    new = encoded.fields[dialect.messages_field]
    if type(new) is not list:  # a single message that came in no list
        return EncodedBody(encoded.body, encoded.repairs, EncodedPrefix())
    pieces = [*prefix.pieces[:count]]
    ends = [end for end in prefix.ends if end[0] <= steps]
    if not steps and (cut := _last_reply(transcript)):
        # The last step may still grow, and then the next request begins before the reply that it belongs to.
        last = dialect.encode_request(transcript, (), Options(model=options.model), card, after=cut)
        at = len(new) - len(last.fields[dialect.messages_field])
        pieces += _encoded(new[:at])
        ends.append((cut, len(pieces)))
        new = new[at:]
    pieces += _encoded(new)
    ends.append((len(transcript.steps), len(pieces)))
    kept = EncodedPrefix(
        transcript.steps,
        tuple(pieces),
        tuple(ends[-_KEPT_ENDS:]),
        transcript.system,
        transcript.target,
        card,
        head,
    )
    return EncodedBody(_joined(encoded.fields, dialect.messages_field, pieces), encoded.repairs, kept)


def _encoded(messages: list[Any]) -> Iterator[memoryview]:
    """Their JSON in pieces that are small enough to be allocated cheaply, and not too many to be joined quickly."""
    for start in range(0, len(messages), _IN_A_PIECE):
        yield memoryview(_ENCODER.encode(messages[start : start + _IN_A_PIECE]))[1:-1]


_IN_A_PIECE = 16
_KEPT_ENDS = 4
"""Of the ends of earlier requests: one is enough unless a conversation is cut back."""


def _known(
    prefix: EncodedPrefix, transcript: Transcript, card: ModelCard, head: Extra | None
) -> tuple[int, int]:
    """How many of the steps were encoded before, just as they would be now, and as how many pieces."""
    steps = transcript.steps
    if (
        transcript.system == prefix.system
        and transcript.target == prefix.target
        and (card is prefix.card or card == prefix.card)
        and head == prefix.head
    ):
        for end, count in reversed(prefix.ends):
            # A message begins where a model's step does; before any other it might be continued.
            if (
                end < len(steps)
                and type(steps[end]) is ModelStep
                # What follows notes that lead the steps decides how they are sent.
                and not all(is_leading_note(step) for step in steps[:end])
                and steps[:end] == (prefix.steps if end == len(prefix.steps) else prefix.steps[:end])
            ):
                return end, count
    return 0, 0


def _depends_on_earlier(transcript: Transcript, done: int) -> bool:
    """Whether a new step holds a block of the provider's own: whether that goes back depends on those before it."""
    for step in transcript.steps[done:]:
        for block in step.blocks:
            if type(block) is Text and block.seal is not None and block.seal.kind == "encrypted":
                return True
    return False


def _last_reply(transcript: Transcript) -> int:
    """Where the last step of a model is; 0 if there is none behind the first."""
    steps = transcript.steps
    return next((at for at in range(len(steps) - 1, 0, -1) if type(steps[at]) is ModelStep), 0)


def _joined(fields: dict[str, Any], messages_field: str, pieces: list[memoryview]) -> bytes:
    """The body in one join: a request is large, and a copy of it costs as much as encoding it."""
    joined: list[bytes | memoryview] = []
    for name, value in fields.items():
        joined += (b"," if joined else b"{", _ENCODER.encode(name), b":")
        if name != messages_field:
            joined.append(_ENCODER.encode(value))
            continue
        before = b"["
        for piece in pieces:
            joined += (before, piece)
            before = b","
        joined.append(b"]" if pieces else b"[]")
    joined.append(b"}")
    return b"".join(joined)
