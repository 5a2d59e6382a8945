"""Requests that hold only what is new: made whole from the replies that we keep, before anything else is done with them.

The whole request is what a client would send that keeps its conversation itself. So no provider, plan, limit or memory sees a
difference. What we do not hold stays as it came: only the provider whose API this is may hold it (`references`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.errors import JournalError
from segue.gateway.archive import history
from segue.gateway.byte_budget import weight_of
from segue.gateway.conversations.references import held_reply
from segue.gateway.conversations.turns import NativeHold, PreparedRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from segue.gateway.archive import ReplyArchive, ReplyNode
    from segue.gateway.doors import Door
    from segue.gateway.web import WebRequest

_LOG: Final = logging.getLogger("segue.gateway")
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


@final
class Continued(Struct, frozen=True):
    """What was put into a request."""

    parent: str = ""
    """The id of the reply that it continues; empty if it begins a conversation."""
    before: int = 0
    """How many messages come from there."""
    conversation: str = ""
    """The id of the conversation that it belongs to; empty if it is not known."""
    native: NativeHold | None = None
    """The provider that holds that reply, too."""

    def noted_in(self, prepared: PreparedRequest) -> PreparedRequest:
        return structs.replace(
            prepared,
            kept=True,
            parent=self.parent,
            before=self.before,
            conversation_id=self.conversation,
            native=self.native,
        )


@final
class ContinuationReader:
    """Makes whole requests."""

    def __init__(self, archive: ReplyArchive) -> None:
        self._archive = archive

    async def read(
        self, door: Door, request: WebRequest, caller: str, names: Collection[str] | None = None
    ) -> tuple[WebRequest, Continued | None]:
        """The request as its client would send it that keeps everything itself, and what was put in; None if it is such a one,
        or continues what we do not hold. `names`: of its outermost fields, if it was read."""
        wire = door.dialect.server.continuations
        if wire is None or (names is not None and wire.field not in names):
            return request, None
        try:
            fields = _FIELDS.decode(request.body)
            previous = wire.previous(fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return request, None  # whoever reads it says what is wrong with it
        if previous is None:
            return request, None
        carried: Mapping[str, Raw] = {}
        before: list[Raw] = []
        conversation, native = "", None
        if previous:
            held = await self._held(door, caller, previous)
            if held is None:
                return request, None
            chain, carried = held
            if (error := wire.unfit(fields, chain[-1].reply)) is not None:
                raise error
            before, conversation = history(chain, wire.messages_of), chain[-1].conversation
            native = held_reply(chain[-1].origin)
        try:
            body = wire.whole(fields, carried, before)
        except msgspec.DecodeError:
            return request, None
        whole = structs.replace(
            request, body=body, headers=wire.headers(request.headers), weight=weight_of(body)
        )
        return whole, Continued(previous, len(before), conversation, native)

    async def _held(
        self, door: Door, caller: str, previous: str
    ) -> tuple[list[ReplyNode], Mapping[str, Raw]] | None:
        """All replies up to that one, and the settings from their beginning; None if something of it is gone."""
        try:
            found = await self._archive.find(caller, previous, door.dialect.name)
            chain = await self._archive.chain(caller, found) if found is not None else None
            carried = await self._archive.settings(caller, found) if found is not None else None
        except JournalError as error:
            _LOG.warning("A conversation was not looked up: %s", error)
            chain = carried = None
        return None if chain is None or carried is None else (chain, carried)
