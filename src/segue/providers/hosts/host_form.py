"""How a host takes the requests of a wire whose home is elsewhere: fields that it adds, refuses, or has in the address.

All of it is data of the address. It is applied to the bytes of a request when nothing else changes them any more, so that it
holds for planned and for forwarded requests alike. What a host refuses may change from week to week (a cloud is behind the
maker of a model): a host that `learns` is asked again without it, and not troubled with it until the process ends.

A host may wrap the events of a reply in frames of its own. They are unwrapped here, so that what reads or forwards them sees the
wire itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, final

import msgspec
from msgspec import Raw, Struct

from segue.dialects.streams.garbled_lines import reply_garbled
from segue.transports.transport import in_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator

    from segue.errors import InvalidRequestError
    from segue.transports.transport import PushedResponse, TakePortion

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_BETAS: Final = "anthropic-beta"


@final
class HostForm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs at one host, beside paths and headers."""

    adds: Mapping[str, Any] = {}
    """Fields that every request has, unless it has them already."""
    refuses: tuple[str, ...] = ()
    """Fields that are not sent: `name`, or `name=text` for one value of it."""
    takes: tuple[str, ...] = ()
    """The only fields that are sent, where the host refuses all that it does not know; empty: any."""
    in_path: tuple[str, ...] = ()
    """Fields that the address tells, and the body must not."""
    betas_field: str = ""
    """The field that lists the betas of Anthropic's wire; empty if they are in their header."""
    frames: Literal["", "aws"] = ""
    """What the events of a stream are wrapped in."""
    own_headers: tuple[str, ...] = ()
    """Headers that a client's request must not bring along."""
    rewrite: Literal["", "vertex"] = ""
    """A change of the messages themselves."""
    learns: bool = False
    """Whether betas and fields that it refuses are dropped from then on."""


@final
class HostRefusals(Struct):
    """The betas and fields that one host has refused so far."""

    betas: set[str] = set()
    fields: set[str] = set()

    def learn(self, error: InvalidRequestError, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether the error names something in the request that can be left out of the next one. A beta and its field go
        together: each is refused without the other. `headers`: as they came, with all betas."""
        from segue.dialects.anthropic_messages.betas import (  # noqa: PLC0415 - a dialect is loaded by those who use it
            fields_of_beta,
            opens,
            refused_in,
        )

        try:
            present = set(_FIELDS.decode(body))
        except msgspec.DecodeError:  # a client's own bytes
            return False
        sent = set(_listed(headers)) - self.betas
        betas, fields = refused_in(error.message)
        betas, fields = betas & sent, fields & present
        self.betas |= betas | {beta for beta in sent if any(opens(beta, name) for name in fields)}
        self.fields |= fields | {name for beta in betas for name in fields_of_beta(beta)}
        return bool(betas or fields)


def fitted_body(
    form: HostForm, body: bytes, headers: Mapping[str, str], refusals: HostRefusals
) -> tuple[bytes, tuple[str, ...]]:
    """The body as the host takes it, and the names of fields that were left out of it. `headers`: as they came."""
    if form.rewrite == "vertex":
        from segue.dialects.gemini.vertex import vertex_body  # noqa: PLC0415 - as above

        body = vertex_body(body)
    if not (form.adds or form.refuses or form.takes or form.in_path or refusals.fields):
        return body, ()
    try:
        given = _FIELDS.decode(body)
    except msgspec.DecodeError:  # a client's own bytes: the host itself says what is wrong with them
        return body, ()
    left_out = tuple(name for name, value in given.items() if _is_refused(form, name, value, refusals))
    hidden = {*left_out, *form.in_path}
    kept = {name: value for name, value in given.items() if name not in hidden}
    added = {name: value for name, value in form.adds.items() if name not in refusals.fields}
    if form.betas_field and (betas := _kept_betas(headers, refusals)):
        added[form.betas_field] = betas
    return msgspec.json.encode({**added, **kept}), left_out


def _is_refused(form: HostForm, name: str, value: Raw, refusals: HostRefusals) -> bool:
    if name in refusals.fields or name in form.refuses or (form.takes and name not in form.takes):
        return True
    return any(
        entry.startswith(f"{name}=") and bytes(value) == msgspec.json.encode(entry.partition("=")[2])
        for entry in form.refuses
    )


def fitted_headers(form: HostForm, headers: Mapping[str, str], refusals: HostRefusals) -> dict[str, str]:
    """A client's headers without what the host refuses."""
    kept = {name: value for name, value in headers.items() if name not in form.own_headers}
    if form.betas_field:
        kept.pop(_BETAS, None)
    elif refusals.betas and _BETAS in kept:
        if betas := _kept_betas(kept, refusals):
            kept[_BETAS] = ",".join(betas)
        else:
            del kept[_BETAS]
    return kept


def _kept_betas(headers: Mapping[str, str], refusals: HostRefusals) -> list[str]:
    return [beta for beta in _listed(headers) if beta not in refusals.betas]


def _listed(headers: Mapping[str, str]) -> list[str]:
    return [beta.strip() for beta in headers.get(_BETAS, "").split(",") if beta.strip()]


def plain_response(form: HostForm, response: PushedResponse) -> PushedResponse:
    """The response as the wire's own host would give it."""
    from segue.dialects.streams.amazon_event_stream import CONTENT_TYPE  # noqa: PLC0415 - of one cloud

    if form.frames != "aws" or not response.headers.get("content-type", "").startswith(CONTENT_TYPE):
        return response
    return _PlainResponse(response)


@final
class _PlainResponse:
    def __init__(self, framed: PushedResponse) -> None:
        from segue.dialects.anthropic_messages.invoke_frames import EventsInFrames  # noqa: PLC0415 - as above

        self._framed = framed
        self._events = EventsInFrames()
        self.status = framed.status
        self.headers: Mapping[str, str] = {**framed.headers, "content-type": self._events.stream_type}

    async def portions(self) -> AsyncIterator[bytes]:
        async for portion in self._framed.portions():
            if events := self._events.feed(portion):
                yield events
            self._check()

    async def push(self, take: TakePortion) -> None:
        def unwrapped(portion: bytes) -> Iterator[Awaitable[None] | None]:
            if events := self._events.feed(portion):
                yield take(events)
            self._check()

        await self._framed.push(lambda portion: in_turn(unwrapped(portion)))

    async def read_rest(self) -> None:
        await self._framed.read_rest()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

    def _check(self) -> None:
        if self._events.is_broken:
            raise reply_garbled("a frame")
