"""Requests of one conversation, one after another: what was encoded once is not encoded again.

Steps are frozen and a render that continues an earlier one keeps them, so the bytes of all but the last few can be
kept too. The next request costs the encoding of what is new and one join of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.conversation.blocks import Origin, Text
from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.dialects.request_messages import is_leading_note
from segue.transcript.steps import ModelStep, Step

if TYPE_CHECKING:
    from segue.conversation.tools import ToolSpec
    from segue.dialects.dialect import Dialect, EncodedRequest
    from segue.transcript.steps import Transcript

_FIELDS = msgspec.json.Decoder(dict[str, Raw])


@final
class EncodedPrefix(Struct, frozen=True, eq=False):
    """The first steps of a transcript and the bytes of their messages."""

    steps: tuple[Step, ...] = ()
    pieces: tuple[bytes, ...] = ()
    """JSON without the brackets around it; all but the first begin with a comma."""
    system: str = ""
    target: Origin | None = None
    card: ModelCard | None = None


def encode_after(
    prefix: EncodedPrefix,
    dialect: Dialect,
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
) -> tuple[EncodedRequest, EncodedPrefix]:
    """The request as `encode_request` would encode it, and the prefix for the next one."""
    if not _fits(prefix, transcript, card):
        prefix = EncodedPrefix()
    done = len(prefix.steps)
    if _depends_on_earlier(transcript, done):
        return dialect.encode_request(transcript, tools, options, card), EncodedPrefix()
    cut = _cut(transcript, done)
    if cut > done:
        part = structs.replace(transcript, steps=transcript.steps[:cut])
        # Messages are encoded alike whatever goes beside them, and without that it costs less.
        middle = dialect.encode_request(part, (), Options(model=options.model), card, after=done)
        messages = _without_brackets(_FIELDS.decode(middle.body)[dialect.messages_field])
        pieces = prefix.pieces
        if messages:
            pieces = (*pieces, b"," + messages if pieces else messages)
        prefix = EncodedPrefix(part.steps, pieces, transcript.system, transcript.target, card)
    encoded = dialect.encode_request(transcript, tools, options, card, after=cut)
    if cut:
        body = _joined(prefix.pieces, encoded.body, dialect.messages_field)
        encoded = structs.replace(encoded, body=body)
    return encoded, prefix


def _fits(prefix: EncodedPrefix, transcript: Transcript, card: ModelCard) -> bool:
    """Whether its steps would be encoded just so again."""
    return (
        transcript.steps[: len(prefix.steps)] == prefix.steps
        and transcript.system == prefix.system
        and transcript.target == prefix.target
        and card == prefix.card
    )


def _depends_on_earlier(transcript: Transcript, done: int) -> bool:
    """Whether a new step holds a text with a seal: whether that goes back depends on those before it."""
    return any(
        type(block) is Text and block.seal is not None
        for step in transcript.steps[done:]
        for block in step.blocks
    )


def _cut(transcript: Transcript, done: int) -> int:
    """Up to where the steps may be kept: before the last model's step, behind which the next request may differ.

    Notes that lead the steps are no part of it by themselves: what follows decides how they are sent.
    """
    steps = transcript.steps
    cut = next((at for at in range(len(steps) - 1, done, -1) if type(steps[at]) is ModelStep), done)
    return done if all(is_leading_note(step) for step in steps[:cut]) else cut


def _joined(pieces: tuple[bytes, ...], body: bytes, messages_field: str) -> bytes:
    """The body with all messages, not only the last."""
    joined: list[bytes] = [b"{"]
    for name, value in _FIELDS.decode(body).items():
        joined += (b"" if len(joined) == 1 else b",", msgspec.json.encode(name), b":")
        if name != messages_field:
            joined.append(bytes(value))
            continue
        last = _without_brackets(value)
        joined += (b"[", *pieces, b"," if pieces and last else b"", last, b"]")
    joined.append(b"}")
    return b"".join(joined)


def _without_brackets(messages: Raw) -> bytes:
    return bytes(messages)[1:-1]
