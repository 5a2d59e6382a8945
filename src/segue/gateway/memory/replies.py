"""A reply as it is remembered: the message with all its seals and native ids, and who wrote it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.document import plain_message
from segue.conversation.message import Message
from segue.gateway.memory.fingerprints import is_unique

if TYPE_CHECKING:
    from segue.conversation.blocks import Media


@final
class RememberedReply(Struct, frozen=True, omit_defaults=True):
    """One reply that left us. A client returns only a part of it; this is the whole."""

    message: Message
    """Canonical, with origin, seals, and the native ids of its provider."""
    route: str
    """provider/model that wrote it: the turn continues there."""
    calls: dict[str, str] = {}
    """Call id as the client got it → canonical id in `message`."""
    conversation: str = ""
    """The id that `segue gateway ps` shows."""
    broken: bool = False
    """The stream broke off after the client had seen a part of it."""
    forwarded: bool = False
    """The client got it in the provider's own bytes."""
    name: str = ""
    """Of the conversation or its session, as its client gave it, as a digest; empty if it gave none."""

    @property
    def has_ids(self) -> bool:
        """Whether the client got it whole, with calls that are all known by their ids."""
        return (
            not self.broken
            and 0 < len(self.calls) == len(self.message.calls)
            and len(self.proofs) == len(self.calls)
        )

    @property
    def proofs(self) -> frozenset[str]:
        """Ids of calls, as the client got them, that no other call has: ours, and random ones of a provider."""
        native = {call.id: call for call in self.message.calls}
        return frozenset(
            [
                shown
                for shown, canonical in self.calls.items()
                if (call := native.get(canonical)) is not None
                and (shown != call.native_id or is_unique(shown, call.name))
            ]
        )


def sound_id(media: Media) -> str:
    """The id by which a client may return a sound of a reply; empty if it has none, or is another thing."""
    extra = media.extra
    return str(extra.form.get("id") or "") if media.kind == "audio" and extra is not None else ""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RememberedReply)


def encode_reply(reply: RememberedReply) -> bytes:
    reply = structs.replace(reply, message=plain_message(reply.message))
    try:
        return _ENCODER.encode(reply)
    except UnicodeEncodeError:
        # Lone surrogates: the standard library can write them, if slowly.
        return json.dumps(msgspec.to_builtins(reply), separators=(",", ":")).encode()


def decode_reply(data: bytes) -> RememberedReply:
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), RememberedReply)
