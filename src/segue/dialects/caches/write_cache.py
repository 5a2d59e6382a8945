"""Requests of one conversation, one after another: what was encoded once is not encoded again.

Steps are frozen and a render that continues an earlier one keeps them, so the bytes of their messages can be kept too.
The next request costs the encoding of what is new and one join of bytes.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Origin
from segue.conversation.extra import Extra
from segue.dialects.caches.tool_cache import FIELD, as_json
from segue.dialects.card import ModelCard
from segue.dialects.requests.messages import is_leading_note
from segue.transcript.repairs import Repair
from segue.transcript.steps import ModelStep, Step

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.dialect import Dialect
    from segue.transcript.steps import Transcript

_ENCODER = msgspec.json.Encoder()


@final
class _Frame(Struct, frozen=True, eq=False):
    """What stands around the messages of a request."""

    fields: dict[str, Any]
    """The fields of the request, with something else for the messages."""
    written: dict[str, bytes]
    """Each of them as JSON."""
    before: bytes
    after: tuple[bytes, ...]
    """In pieces: tools are large, and are copied once, when all is joined."""
    size: int
    changeable: list[str]
    """Names of fields whose values can be changed in place."""

    def fits(self, fields: dict[str, Any], messages_field: str, tools: tuple[ToolSpec, ...]) -> bool:
        """Whether these fields hold the very values it was written from. Equal ones may be written otherwise; and those that
        their owner can change are written again, to see whether he did."""
        values = {**fields, messages_field: ()}.values()
        return (
            [*fields] == [*self.fields]
            and all(map(is_, values, self.fields.values()))
            and all(_write(name, fields[name], tools) == self.written[name] for name in self.changeable)
        )

    def around(self, *messages: bytes | memoryview) -> bytes:
        """The request with these messages."""
        # One join: a request is large, and a copy of it costs a good part of encoding it. And what the encoder gives back keeps the
        # room that it grew into, half as much again, as long as the request is kept for the next one.
        return b"".join((self.before, *messages, *self.after))


@final
class EncodedPrefix(Struct, frozen=True, eq=False):
    """The steps of a transcript, and a request that holds their messages."""

    steps: tuple[Step, ...] = ()
    body: bytes = b""
    start: int = 0
    """Where the messages begin in the body."""
    ends: tuple[tuple[int, int], ...] = ()
    """Where a longer transcript may continue: after so many steps, whose messages end there. The longest is last."""
    system: str = ""
    target: Origin | None = None
    card: ModelCard | None = None
    head: Extra | None = None
    """How the system prompt came, where it stands before the messages."""
    frame: _Frame | None = None


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
    own = options.own
    # What another wire has of its own is not sent, and makes no difference.
    head = own.container if own is not None and own.dialect == dialect.name else None
    steps, known = _known(prefix, transcript, card, head)
    encoded = dialect.encode_request(transcript, tools, options, card, after=steps)
    if encoded.is_linked and steps:
        encoded = dialect.encode_request(transcript, tools, options, card)
    new = encoded.fields[dialect.messages_field]
    if encoded.is_linked or type(new) is not list:  # or a single message that came in no list
        return EncodedBody(encoded.body, encoded.repairs, EncodedPrefix())
    frame = prefix.frame
    if frame is None or not frame.fits(encoded.fields, dialect.messages_field, tools):
        frame = _frame(encoded.fields, dialect.messages_field, tools)
    ends = [end for end in prefix.ends if end[0] <= steps]
    if steps:
        earlier = memoryview(prefix.body)[prefix.start : prefix.start + known]
        body = frame.around(earlier, b",", _items(new))
    elif cut := _last_reply(transcript) if encoded.before_reply else 0:
        # The last step may still grow, and then the next request begins before the reply that it belongs to.
        reply = _items(new[encoded.before_reply :])
        body = frame.around(_items(new[: encoded.before_reply]), b",", reply)
        ends.append((cut, len(body) - frame.size - len(reply) - 1))
    else:
        body = frame.around(_items(new))
    ends.append((len(transcript.steps), len(body) - frame.size))
    kept = EncodedPrefix(
        transcript.steps,
        body,
        len(frame.before),
        tuple(ends[-_KEPT_ENDS:]),
        transcript.system,
        transcript.target,
        card,
        head,
        frame,
    )
    return EncodedBody(body, encoded.repairs, kept)


_KEPT_ENDS = 4
"""Of the ends of earlier requests: one is enough unless a conversation is cut back."""


def _known(
    prefix: EncodedPrefix, transcript: Transcript, card: ModelCard, head: Extra | None
) -> tuple[int, int]:
    """How many of the steps were encoded before, just as they would be now, and where their messages end."""
    steps = transcript.steps
    if (
        transcript.system == prefix.system
        and transcript.target == prefix.target
        and (card is prefix.card or card == prefix.card)
        and head == prefix.head
    ):
        for end, known in reversed(prefix.ends):
            # A message begins where a model's step does; before any other it might be continued.
            if (
                end < len(steps)
                and known
                and type(steps[end]) is ModelStep
                # What follows notes that lead the steps decides how they are sent.
                and not all(is_leading_note(step) for step in steps[:end])
                and steps[:end] == (prefix.steps if end == len(prefix.steps) else prefix.steps[:end])
            ):
                return end, known
    return 0, 0


def _last_reply(transcript: Transcript) -> int:
    """Where the last step of a model is; 0 if there is none behind the first."""
    steps = transcript.steps
    return next((at for at in range(len(steps) - 1, 0, -1) if type(steps[at]) is ModelStep), 0)


def _items(messages: list[Any]) -> memoryview:
    """As JSON, without the brackets of a list."""
    return memoryview(_ENCODER.encode(messages))[1:-1]


def _frame(fields: dict[str, Any], messages_field: str, tools: tuple[ToolSpec, ...]) -> _Frame:
    written: dict[str, bytes] = {}
    pieces: list[bytes] = []
    before = b""
    for name, value in fields.items():
        pieces.append(b"%b%b:" % (b"," if written else b"{", _ENCODER.encode(name)))
        if name == messages_field:
            written[name] = b""
            before = b"".join((*pieces, b"["))
            pieces = [b"]"]
        else:
            written[name] = _write(name, value, tools)
            pieces.append(written[name])
    after = (*pieces, b"}")
    size = len(before) + sum(map(len, after))
    changeable = [
        name for name in fields if name != messages_field and type(fields[name]) not in _UNCHANGEABLE
    ]
    return _Frame({**fields, messages_field: ()}, written, before, after, size, changeable)


def _write(name: str, value: Any, tools: tuple[ToolSpec, ...]) -> bytes:
    return as_json(tools, value, _ENCODER.encode) if name == FIELD else _ENCODER.encode(value)


_UNCHANGEABLE = frozenset({str, int, float, bool, type(None)})
