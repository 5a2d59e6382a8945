"""Which conversation a request belongs to. Nothing is guessed: what is not known for sure is a new conversation.

By the client's own name for it, else by a reply of ours that it returns, else by the exact request that it continues
(docs/decisions/0018-identity.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.gateway.memory.fingerprints import is_unique
from segue.gateway.memory.openings import GivenName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from segue.conversation.message import Message
    from segue.dialects.server_side.wire_server import ServerFacts
    from segue.gateway.memory.histories import Originals
    from segue.gateway.memory.memory import Memory
    from segue.gateway.memory.openings import Opening

NAME_HEADER: Final = "x-segue-session"
"""By which any client can name its conversation."""


def given_name(server: ServerFacts, headers: Mapping[str, str], fields: Mapping[str, Any]) -> GivenName:
    """The name by which a request says where it belongs."""
    names = [named for header in server.session_headers if (named := headers.get(header))]
    session = names[0] if names else ""
    for header in (NAME_HEADER, *server.conversation_headers):
        if named := headers.get(header):
            return GivenName(f"{header} {named}", exact=True, session=session)
    for field in server.conversation_fields:
        named = fields.get(field)
        named = named.get("id") if isinstance(named, dict) else named
        if isinstance(named, str) and named:
            return GivenName(f"{field} {named}", exact=True, session=session)
    return GivenName(
        " ".join(dict.fromkeys(names)), session=session
    )  # some programs send one name twice, on some wires


async def known_conversation(
    memory: Memory, caller: str, sent: Sequence[Message], originals: Originals, opening: Opening
) -> str:
    """The id of the conversation; empty if it is a new one. `sent`: the messages as the client sent them."""
    name = opening.name.digest
    if opening.name.exact:
        return memory.conversation_id(caller, name)
    for index in sorted(originals.replies, reverse=True):
        reply = originals.replies[index]
        # A reply that returns under another name was copied from there: a fork.
        copied = bool(name) and reply.name != name
        if reply.conversation and not copied and not _ids_of(sent[index]).isdisjoint(reply.proofs):
            return reply.conversation
    known = await _by_place(memory, caller, sent, originals, opening)
    return known or (memory.conversation_id(caller, opening.digest.hex()) if name else "")


async def _by_place(
    memory: Memory, caller: str, sent: Sequence[Message], originals: Originals, opening: Opening
) -> str:
    """By a place at which one conversation alone wrote. Two of them may have begun with the same words and have got the same
    answer, which has no id: they are told apart as soon as they differ."""
    name, before = opening.name.digest, originals.fingerprints.of
    known = max(originals.replies, default=None)
    places: list[bytes] = []
    if known is not None:
        if sent[known].calls:
            places.append(memory.arguments_key(caller, opening.digest, before(known), sent[known]))
        places.append(memory.own_place_key(caller, name, before(known), sent[known]))
    last = next((at for at in range(len(sent) - 1, -1, -1) if sent[at].speaker == "model"), None)
    if known is None and last is not None and opening.dialect.client.call_ids and _has_own_ids(sent[last]):
        return ""  # a reply with such ids is kept under these alone, and to hash a long history takes an eighth of reading it
    for index in dict.fromkeys((last, known)):
        if index is not None:
            places += memory.exact_keys(caller, opening.digest, before(index), sent[index])
    return await memory.sole_conversation(places, name)


def _has_own_ids(message: Message) -> bool:
    """Whether it calls something, always by an id that no other call has."""
    return bool(message.calls) and all(is_unique(call.native_id, call.name) for call in message.calls)


def _ids_of(message: Message) -> frozenset[str]:
    return frozenset([call.native_id for call in message.calls])
