"""The originals of replies in a client's history.

A client returns of a reply what its wire can hold. Where the reply is remembered, the whole takes its place again: the
reasoning with its seals, the seals on the calls, the provider's own ids. Where the client changed the reply, its version
stands, and only what belongs to its calls is added. Of a reply that the client got in the bytes of its own provider, its version
is kept beside the original, for that provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

from msgspec import Struct, structs

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, ToolCall
from segue.gateway.memory.fingerprints import HistoryFingerprints, is_unique
from segue.gateway.memory.histories import KnownHistory, Maker, Originals
from segue.gateway.memory.replies import RememberedReply, sound_id
from segue.gateway.requests.large_bodies import read_beside
from segue.transcript.blocks.citations import without_source_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.gateway.memory.memory import Memory
    from segue.gateway.memory.openings import Opening


async def recall_originals(
    memory: Memory,
    caller: str,
    messages: Sequence[Message],
    *,
    opening: Opening | None = None,
    size: int = 0,
) -> Originals:
    """Put the originals into an adopted history.

    `opening`: what the request says before them. `size`: the bytes of the request, by which the history is held for the next
    one; 0: it is not.
    """
    messages = tuple(messages)
    key = caller, opening.name.text if opening is not None else "", hash(messages[0].text) if messages else 0
    history = memory.histories.get(key) if size else None
    common = history.common(messages) if history is not None else 0
    if common:
        common = min(common, _surely_known(messages, common))
    if history is None or not common:
        history, common = _NOTHING, 0
    known = history.originals
    fingerprints = known.fingerprints.continued(messages, common)
    replies = known.replies.copy()
    dropped = [replies.pop(index, None) for index in range(common, len(history.sent))]
    look = partial(_look_at, memory, caller, messages, common, fingerprints, opening)
    new = await read_beside(size, look)
    failures = memory.failed_reads
    wanted = [key for keys in new.ids.values() for key in keys]
    anew: list[bytes] = []
    for index, keys in new.places.items():
        (anew if messages[index].calls else wanted).extend(keys)
    recalled = await memory.recall(wanted, anew) if wanted or anew else {}
    failed = memory.failed_reads != failures
    restored = known.messages[:common] + messages[common:]
    images = [index for index in history.images if index < common] + new.images
    makers = _makers(replies.values()) if any(dropped) else known.makers
    returned = known.returned
    if any(max(by_index) >= common for by_index in returned.values()):
        returned = {
            by: {index: message for index, message in by_index.items() if index < common}
            for by, by_index in returned.items()
            if min(by_index) < common
        }
    if recalled:
        found = _found(messages, new, recalled)
        changed = [*restored]
        for index, candidates in found.items():
            changed[index] = _restore(messages[index], candidates)
            replies[index] = candidates[-1]
        restored = tuple(changed)
        images = [index for index in images if index not in found]
        images += [
            index
            for index in found
            for block in restored[index].blocks
            if type(block) is Media and block.kind == "image"
        ]
        makers |= _makers([replies[index] for index in found])
        new_returned: dict[tuple[str, str], dict[int, Message]] = {}
        for index in found:
            message = _as_returned(messages[index], found[index])
            if message is not None and (maker := message.origin) is not None:
                new_returned.setdefault((maker.provider, maker.model), {})[index] = message
        returned = {**returned, **{by: {**returned.get(by, {}), **new_returned[by]} for by in new_returned}}
    originals = Originals(
        restored,
        fingerprints,
        replies,
        _last_reply(messages, replies) if replies else None,
        known=common,
        failed=failed,
        call_ids=known.call_ids.union(new.call_ids),
        has_images=bool(images),
        makers=makers,
        returned=returned,
    )
    if size and not failed:
        memory.histories.keep(key, KnownHistory(messages, tuple(images), originals), 2 * size)
    return originals


def _surely_known(messages: tuple[Message, ...], common: int) -> int:
    """How many of these messages are what they were in the last request. Calls that have no ids of their own are asked for
    anew while they are open: another conversation may have been given the same ones by another model, at another gateway."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].speaker == "model":
            unique = all(is_unique(call.native_id, call.name) for call in messages[index].calls)
            return common if unique else index
    return common


@final
class _New(Struct):
    """What is looked for in the messages of a history that are new."""

    ids: dict[int, Sequence[bytes]]
    """Of each model's message with calls, the keys of their ids: its original is under all of them."""
    places: dict[int, Sequence[bytes]]
    """Of each one that such ids do not prove, the keys of its place: the first that leads somewhere counts."""
    call_ids: list[str]
    images: list[int]
    """Indexes of messages that show one."""


def _look_at(
    memory: Memory,
    caller: str,
    messages: tuple[Message, ...],
    start: int,
    fingerprints: HistoryFingerprints,
    opening: Opening | None,
) -> _New:
    """All messages from `start` on, in one loop: a history has hundreds when it is seen first."""
    replies: list[int] = []
    call_ids: list[str] = []
    images: list[int] = []
    calls: list[tuple[int, int, int]] = []
    for index in range(start, len(messages)):
        message = messages[index]
        speaker = message.speaker
        if speaker == "tool":
            continue  # in an adopted history it holds results alone
        first = len(call_ids)
        unique = True
        for block in message.blocks:
            if type(block) is ToolCall:
                call_ids.append(block.native_id)
                unique = unique and is_unique(block.native_id, block.name)
            elif type(block) is Media and block.kind == "image":
                images.append(index)
        if speaker == "model":
            if any(call_ids[first:]):
                calls.append((index, first, len(call_ids)))
            if len(call_ids) == first or not unique:
                replies.append(index)
    keys = memory.call_keys(caller, call_ids) if calls else []
    named = all(call_ids)
    ids: dict[int, Sequence[bytes]] = {}
    for index, first, end in calls:
        # A call without an id has no key.
        ids[index] = keys[first:end] if named else [keys[at] for at in range(first, end) if call_ids[at]]
    places = _places(memory, caller, messages, replies, fingerprints, opening) if replies else {}
    return _New(ids, places, call_ids, images)


def _places(
    memory: Memory,
    caller: str,
    messages: tuple[Message, ...],
    replies: list[int],
    fingerprints: HistoryFingerprints,
    opening: Opening | None,
) -> dict[int, Sequence[bytes]]:
    """Of each of these replies, by its index, the keys of its place."""
    places = {index: memory.place_key(caller, fingerprints.of(index), messages[index]) for index in replies}
    keys: dict[int, Sequence[bytes]] = {index: (place,) for index, place in places.items()}
    name = opening.name.digest if opening is not None else ""
    bound = replies if name else [index for index in replies if messages[index].calls]
    if opening is not None and bound:
        # Calls must go back to the model that made them, and so bind the turn to it: two conversations that begin with the same
        # words and call the same tools are told apart by what they ask for, or by their names. For a text alone the tools are not
        # hashed: its seals are all there is to win, where two conversations got the same one.
        found = memory.keys_at(caller, name, opening.digest, [places[index] for index in bound])
        for index, exact in zip(bound, found, strict=True):
            keys[index] = exact if messages[index].calls else (*exact, places[index])
    return keys


def _found(
    messages: tuple[Message, ...], new: _New, recalled: Mapping[bytes, RememberedReply]
) -> dict[int, list[RememberedReply]]:
    """Of each message that is remembered, the replies that it may have been."""
    found: dict[int, list[RememberedReply]] = {}
    for index, keys in new.ids.items():
        distinct = dict.fromkeys([key for key in keys if key in recalled])
        candidates = [recalled[key] for key in distinct if _may_be(messages[index], recalled[key])]
        if candidates:
            found[index] = candidates
    for index, keys in new.places.items():
        shown = {call.native_id for call in messages[index].calls}
        if any(not shown.isdisjoint(reply.proofs) for reply in found.get(index, ())):
            continue
        # An id that a server counts leads to whoever got it last; the place knows better.
        there = next((recalled[key] for key in keys if key in recalled), None)
        if there is not None and _may_be(messages[index], there):
            found[index] = [there]
    return found


def _makers(replies: Iterable[RememberedReply]) -> frozenset[Maker]:
    return frozenset([_maker(reply) for reply in replies])


def _maker(reply: RememberedReply) -> Maker:
    origin = reply.message.origin or _NOBODY
    native = {call.native_id for call in reply.message.calls}
    return Maker(origin.dialect, origin.provider, native.issuperset(reply.calls))


_NOBODY = Origin()
_NOTHING = KnownHistory((), (), Originals((), HistoryFingerprints()))


def _last_reply(
    messages: Sequence[Message], replies: Mapping[int, RememberedReply]
) -> RememberedReply | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].speaker == "model":
            return replies.get(index)
    return None


def _may_be(message: Message, reply: RememberedReply) -> bool:
    """Whether the message can be this reply. Ids of ours are unique for ever; a provider's own id, which reached the client
    unchanged, may have been given to another call too."""
    by_id = {call.id: call for call in reply.message.calls}
    for call in message.calls:
        original = by_id.get(reply.calls.get(call.native_id, ""))
        if original is None or original.native_id != call.native_id:
            continue
        if (original.name, original.arguments) != (call.name, call.arguments):
            return False
    return True


def _restore(message: Message, replies: Sequence[RememberedReply]) -> Message:
    first = replies[0]
    if all(reply == first for reply in replies) and _is_unchanged(message, first):
        return _whole(message, first)
    return _patched(message, replies)


def _is_unchanged(message: Message, reply: RememberedReply) -> bool:
    """Whether the client returned all that a reader saw of the reply."""
    returned, made = message.text.strip(), reply.message.text.strip()
    if returned != made and without_source_list(returned) != without_source_list(made):
        return False
    ids = [call.native_id for call in message.calls]
    if any(ids):
        return ids == list(reply.calls)
    return [call.name for call in message.calls] == [call.name for call in reply.message.calls]


def _as_returned(message: Message, replies: Sequence[RememberedReply]) -> Message | None:
    """The client's version of a forwarded reply, with what only we know: who made its seals, and under what. None if it was not
    forwarded, or did not return whole."""
    reply = replies[0]
    alone = all(other == reply for other in replies)
    if not (alone and reply.forwarded and _is_unchanged(message, reply)):
        return None
    held, made = _made_in(message), _made_in(reply.message)
    if held.thoughts != made.thoughts or held.shown != made.shown or len(held.seals) != len(made.seals):
        return None
    if not all(map(_is_same_seal, held.seals, made.seals)):
        return None
    known = iter(made.seals)
    blocks = [
        block if _seal_of(block) is None else _sealed_as(block, next(known)) for block in message.blocks
    ]
    return structs.replace(message, blocks=tuple(blocks), origin=reply.message.origin)


class _Made(NamedTuple):
    """What only the model can have made of a message. A stream may have brought it in more pieces than we keep."""

    thoughts: str
    shown: int
    seals: list[Seal]


def _made_in(message: Message) -> _Made:
    blocks = message.blocks
    thoughts = "".join([block.text for block in blocks if type(block) is Reasoning])
    shown = sum(type(block) is Media and not sound_id(block) for block in blocks)
    return _Made(thoughts.strip(), shown, [seal for block in blocks if (seal := _seal_of(block)) is not None])


def _sealed_as(block: Block, original: Seal) -> Block:
    """A block with the client's spelling of a seal."""
    held = _seal_of(block)
    if held is None:
        return block
    return structs.replace(block, seal=structs.replace(original, payload=held.payload))


def _seal_of(block: Block) -> Seal | None:
    return getattr(block, "seal", None)


def _is_same_seal(held: Seal, made: Seal) -> bool:
    """Clients may spell bytes in the other alphabet of base64, and the provider's items in their own way."""
    if held.payload == made.payload:
        return True
    if made.payload.startswith("{"):
        return held.payload.startswith("{")
    return _bytes_of(held.payload) == _bytes_of(made.payload)


def _bytes_of(payload: str) -> str:
    """Base64 in one alphabet, without what fills it up."""
    return payload.translate(_ONE_ALPHABET).rstrip("=")


_ONE_ALPHABET = str.maketrans("-_", "+/")


def _whole(message: Message, reply: RememberedReply) -> Message:
    """The original; its calls get the ids by which the client's results refer to them, and what they have of the client's
    own wire: there they were called in its own way."""
    held = iter(message.calls)
    blocks: list[Block] = [
        _as_called(block, next(held)) if type(block) is ToolCall else block for block in reply.message.blocks
    ]
    return structs.replace(reply.message, blocks=tuple(blocks))


def _as_called(original: ToolCall, returned: ToolCall) -> ToolCall:
    return structs.replace(original, id=returned.id, extra=original.extra or returned.extra)


def _patched(message: Message, replies: Sequence[RememberedReply]) -> Message:
    """The client's version, with what belongs to its calls: their seals, and the reasoning that led to them."""
    originals: dict[str, tuple[ToolCall, RememberedReply]] = {}
    for reply in replies:
        by_id = {call.id: call for call in reply.message.calls}
        originals |= {
            shown: (by_id[canonical], reply) for shown, canonical in reply.calls.items() if canonical in by_id
        }
    begun: set[int] = set()
    blocks: list[Block] = []
    for block in message.blocks:
        if type(block) is Reasoning:
            continue  # the originals of this message bring theirs
        if type(block) is ToolCall and block.native_id in originals:
            call, reply = originals[block.native_id]
            if id(reply) not in begun:
                thoughts = _reasoning_before(reply.message, call)
                # A reply that began with a thought must begin with it again, whatever its client wrote in front of it.
                leads = not begun and thoughts[:1] == [*reply.message.blocks[:1]]
                blocks = [*thoughts, *blocks] if leads else [*blocks, *thoughts]
                begun.add(id(reply))
            blocks.append(_as_called(call, block))
        else:
            blocks.append(block)
    if not begun:
        return message
    return structs.replace(message, blocks=tuple(blocks), origin=replies[-1].message.origin)


def _reasoning_before(message: Message, call: ToolCall) -> list[Block]:
    found: list[Block] = []
    for block in message.blocks:
        if block is call:
            break
        if type(block) is Reasoning:
            found.append(block)
    return found
