"""Replies that a client may ask for by their ids, on wires that keep them: stored, continued, listed, deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct

from segue.dialects import stored_replies as stored
from segue.errors import InvalidRequestError, JournalError, OverloadError
from segue.gateway.byte_budget import hold_for_request
from segue.gateway.client_errors import STORE_AWAY_SECONDS
from segue.gateway.web import json_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.web import WebRequest, WebResponse

_LOG: Final = logging.getLogger("segue.gateway")
_KIND: Final = "response"
_ITEM: Final = "item of a response"
_CANCELLED: Final = "cancelled response"


class StoredReply(Struct):
    """A reply, and the whole conversation before it."""

    reply: Raw
    input: list[Any]
    """The items of the request, with those of the replies that it continued."""
    whole: bool = True
    """False if the provider held the beginning of that conversation: then the input is only its end."""
    provider: str = ""
    """Of a reply whose bytes were forwarded: this provider knows it by its id, too."""
    beat: float = 0.0
    """When a reply that is still being made was seen last; 0 if it is complete."""


_DECODER = msgspec.json.Decoder(StoredReply)


@final
class ReplyArchive:
    """The stored replies of all callers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def check(self) -> None:
        """Raises if a reply could not be kept now."""
        try:
            await self._memory.store.check()
        except JournalError as error:
            raise OverloadError(
                "The gateway cannot store a reply now.",
                code="store_away",
                retry_after=STORE_AWAY_SECONDS,
                hint="Send the request later, or without store: true.",
            ) from error

    async def find(self, caller: str, reply_id: str) -> StoredReply | None:
        data = await self._memory.get_object(caller, _KIND, reply_id)
        if data is None:
            return None
        hold_for_request(data)
        return _DECODER.decode(data)

    async def items(self, caller: str, ids: Sequence[str]) -> dict[str, tuple[Any, str]]:
        """Items of stored replies, by their ids, each with the provider that has stored it too."""
        found: dict[str, tuple[Any, str]] = {}
        for item_id in ids:
            if item_id in found or (named := await self._memory.get_object(caller, _ITEM, item_id)) is None:
                continue
            if (reply := await self.find(caller, named.decode())) is not None:
                items = stored.items_by_id(msgspec.json.decode(reply.reply))
                found |= {name: (item, reply.provider) for name, item in items.items()}
        return found

    async def keep(self, turn: ClientTurn, body: bytes, provider: str) -> None:
        """`provider`: the one that has stored it too; empty if nobody has. A store that fails costs this record, and never the
        reply."""
        reply = msgspec.json.decode(body)
        reply_id = reply.get("id")
        if not isinstance(reply_id, str) or not reply_id:
            return
        record = StoredReply(
            Raw(body),
            stored.input_items(turn.whole_fields),
            whole=not turn.prepared.is_part,
            provider=provider,
        )
        try:
            await self.put(turn.caller, reply_id, record)
        except JournalError as error:
            _LOG.warning("A reply was not kept for its client: %s", error)

    async def put(self, caller: str, reply_id: str, record: StoredReply) -> None:
        """Keep a reply under its id, and where each of its items is under the item's."""
        names = stored.items_by_id(msgspec.json.decode(record.reply))
        items = {(_ITEM, name): reply_id.encode() for name in names}
        written = msgspec.json.encode(record)
        await self._memory.put_objects(caller, {(_KIND, reply_id): written, **items})

    async def cancel(self, caller: str, reply_id: str) -> None:
        """Ask whoever makes this reply to end it."""
        await self._memory.put_object(caller, _CANCELLED, reply_id, b"{}")

    async def is_cancelled(self, caller: str, reply_id: str) -> bool:
        return await self._memory.get_object(caller, _CANCELLED, reply_id) is not None

    def history(self, found: StoredReply) -> list[Any]:
        """All items up to and including a reply."""
        return [*found.input, *stored.output_items(msgspec.json.decode(found.reply))]

    async def answer(self, door: Door, request: WebRequest, caller: str) -> WebResponse:
        """List the input of a reply, or delete it."""
        reply_id = door.params.get("id", "")
        found = await self.find(caller, reply_id)
        if found is None:
            raise not_found(reply_id)
        if door.operation == "list_input":
            return json_response(Raw(stored.encode_input(found.input, request.query)))
        await self._memory.delete_object(caller, _KIND, reply_id)
        return json_response(Raw(stored.encode_deleted(reply_id)))


def not_found(reply_id: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Response with id '{reply_id}' not found.",
        code="not_found",
        status=404,
        hint="Replies are kept for the callers that asked for them, for as long as gateway.memory.days.",
    )
