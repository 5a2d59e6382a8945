"""Requests that hold only what is new and name the reply before it by its id, or the conversation that it is added to, on wires whose
servers keep replies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct

from segue.dialects.server_side.continuations import Continuations, WholeRequest, body_of
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
    """The field that names a conversation object. It excludes the other one; whoever reads the request says so."""

    def previous(self, fields: Mapping[str, Raw]) -> str | None:
        named = _value(fields, self.field)
        return named if isinstance(named, str) and named and _value(fields, self.beside) is None else None

    def conversation(self, fields: Mapping[str, Raw]) -> str:
        named = _value(fields, self.beside)
        named = named.get("id") if isinstance(named, dict) else named
        return named if isinstance(named, str) and not _value(fields, self.field) else ""

    def whole(
        self, fields: Mapping[str, Raw], carried: Mapping[str, Raw], before: Sequence[bytes]
    ) -> WholeRequest:
        given = msgspec.json.decode(fields.get(_INPUT, b"null"))
        new = [Raw(msgspec.json.encode(item)) for item in stored_wire(self.wire).input_items({_INPUT: given})]
        if given and not new:
            raise msgspec.DecodeError("The input is none.")
        own = {**carried, **fields}
        first = {name: own[name] for name in self.first if name in own}
        left_out = {*self.first, self.field, self.beside, _INPUT}
        rest = {name: value for name, value in own.items() if name not in left_out}
        body = body_of(first, _INPUT, (*before, *new), rest)
        return WholeRequest(body, tuple(new), {**first, **rest})

    def messages_of(self, reply: bytes) -> list[Raw]:
        return stored_wire(self.wire).reply_items(reply)

    def can_be_continued(self, reply: bytes) -> bool:
        held = _STATUS.decode(reply)
        return stored_wire(self.wire).can_be_continued(None if held is None else {"status": held.status})

    def reply_in_stream(self, frames: bytes) -> bytes | None:
        return stored_wire(self.wire).reply_in_stream(frames)


def _value(fields: Mapping[str, Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _joined(messages: Sequence[Raw]) -> bytes:
    return b",".join(messages)


def _fits(_fields: Mapping[str, Any], _reply: bytes) -> None:
    """Every request may continue a reply."""


def continued_by_id(wire: str, field: str, first: tuple[str, ...], *, beside: str = "") -> Continuations:
    """For a wire whose requests name the reply that they continue in this field, or a conversation in the one `beside` it."""
    parent = _NamedParent(wire, field, first, beside)
    return Continuations(
        fields=(field, beside) if beside else (field,),
        keeps=False,
        previous=parent.previous,
        conversation=parent.conversation,
        joined=_joined,
        whole=parent.whole,
        headers=partial(dict[str, str]),
        messages_of=parent.messages_of,
        unfit=_fits,
        can_be_continued=parent.can_be_continued,
        reply_in_stream=parent.reply_in_stream,
    )
