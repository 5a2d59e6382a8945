"""Requests that hold only what is new and name the reply before it by its id, on wires whose servers keep replies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct

from segue.dialects.server_side.continuations import Continuations, WholeRequest
from segue.dialects.server_side.stored_wires import stored_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INPUT: Final = "input"


class _StoredStatus(Struct):
    status: str = "completed"


_STATUS: Final = msgspec.json.Decoder(_StoredStatus | None)


@final
class _NamedParent(Struct, frozen=True):
    """How a wire names the reply that a request continues."""

    wire: str
    field: str
    first: tuple[str, ...]
    """What comes before the messages in a body: it is the same in each request of a conversation, so that this is read once."""
    beside: str = ""
    """A field that excludes the other one; whoever reads the request says so."""

    def previous(self, fields: Mapping[str, Raw]) -> str | None:
        if bytes(fields.get(self.beside, b"null")) != b"null":
            return None
        named = msgspec.json.decode(fields.get(self.field, b"null"))
        return named if isinstance(named, str) and named else None

    def whole(self, fields: Mapping[str, Raw], carried: Mapping[str, Raw], before: bytes) -> WholeRequest:
        given = msgspec.json.decode(fields.get(_INPUT, b"null"))
        new = [Raw(msgspec.json.encode(item)) for item in stored_wire(self.wire).input_items({_INPUT: given})]
        if given and not new:
            raise msgspec.DecodeError("The input is none.")
        own = {**carried, **fields}
        first = {name: own[name] for name in self.first if name in own}
        left_out = {*self.first, self.field, _INPUT}
        rest = {name: value for name, value in own.items() if name not in left_out}
        items = Raw(b"[" + b",".join([*([before] if before else ()), *new]) + b"]")
        body = msgspec.json.encode({**first, _INPUT: items, **rest})
        return WholeRequest(body, tuple(new), {**first, **rest})

    def messages_of(self, reply: bytes) -> list[Raw]:
        return stored_wire(self.wire).reply_items(reply)

    def can_be_continued(self, reply: bytes) -> bool:
        held = _STATUS.decode(reply)
        return stored_wire(self.wire).can_be_continued(None if held is None else {"status": held.status})

    def reply_in_stream(self, frames: bytes) -> bytes | None:
        return stored_wire(self.wire).reply_in_stream(frames)


def _joined(messages: Sequence[Raw]) -> bytes:
    return b",".join(messages)


def _fits(_fields: Mapping[str, Any], _reply: bytes) -> None:
    """Every request may continue a reply."""


def continued_by_id(wire: str, field: str, first: tuple[str, ...], *, beside: str = "") -> Continuations:
    """For a wire whose requests name the reply that they continue in this field."""
    parent = _NamedParent(wire, field, first, beside)
    return Continuations(
        field=field,
        keeps=False,
        previous=parent.previous,
        joined=_joined,
        whole=parent.whole,
        headers=partial(dict[str, str]),
        messages_of=parent.messages_of,
        unfit=_fits,
        can_be_continued=parent.can_be_continued,
        reply_in_stream=parent.reply_in_stream,
    )
