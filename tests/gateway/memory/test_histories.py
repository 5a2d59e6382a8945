"""Histories that return are not looked up again, and never give anything else than a look would."""

from __future__ import annotations

import asyncio

from msgspec import structs

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.dialects import DIALECTS
from segue.errors import JournalError
from segue.gateway.memory.fingerprints import HistoryFingerprints, fingerprint_of
from segue.gateway.memory.histories import KnownHistories, KnownHistory, Maker, Originals
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.openings import GivenName, Opening
from segue.gateway.memory.originals import recall_originals
from segue.gateway.memory.replies import RememberedReply
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore

MAKER = Origin("anthropic", "anthropic", "", "m")


class CountingStore(SQLiteMemoryStore):
    """Counts the keys that were asked for."""

    asked = 0
    broken = False

    async def read(self, keys):  # type: ignore[no-untyped-def]
        self.asked += len(keys)
        if self.broken:
            raise JournalError("The disk is gone.")
        return await super().read(keys)


def call_id(turn: int) -> str:
    """As long as ids are that nobody else gives."""
    return f"call_{turn:024}"


def history(turns: int, *, changed: int = -1) -> list[Message]:
    messages = [Message("user", (Text("Begin."),))]
    for turn in range(turns):
        text = "Changed." if turn == changed else f"Reply {turn}."
        call = ToolCall(f"c{turn}", "look", {}, native_id=call_id(turn))
        messages.append(Message("model", (Text(text), call)))
        messages.append(Message("tool", (ToolResult(f"c{turn}", "look", "ok", native_id=call_id(turn)),)))
    return messages


def remembered(turn: int) -> RememberedReply:
    blocks = (
        Reasoning("Let me see.", Seal(MAKER, f"seal {turn}")),
        Text(f"Reply {turn}."),
        ToolCall(f"c{turn}", "look", {}, native_id=call_id(turn)),
    )
    return RememberedReply(Message("model", blocks, MAKER), "anthropic/m", {call_id(turn): f"c{turn}"})


def named(name: str) -> Opening:
    return Opening(GivenName(name), DIALECTS["anthropic"], "", Conversation(), ())


def opened() -> tuple[Memory, CountingStore]:
    store = CountingStore()
    return Memory(store, InstallationKey(b"k" * 32), cache_bytes=0), store


def test_the_next_request_looks_up_only_what_is_new_and_restores_all() -> None:
    async def main() -> None:
        memory, store = opened()
        for turn in range(4):
            await memory.remember("me", b"", remembered(turn))
        await recall_originals(memory, "me", history(3), size=100)
        store.asked = 0
        found = await recall_originals(memory, "me", history(4), size=100)
        assert store.asked == 1
        fresh = await recall_originals(memory, "me", history(4))
        assert (found.known, structs.replace(found, known=0)) == (7, fresh)
        assert set(found.replies) == {1, 3, 5, 7}

    asyncio.run(main())


def test_a_message_that_changed_is_looked_up_again_with_all_behind_it() -> None:
    async def main() -> None:
        memory, store = opened()
        for turn in range(3):
            await memory.remember("me", b"", remembered(turn))
        await recall_originals(memory, "me", history(3), size=100)
        store.asked = 0
        found = await recall_originals(memory, "me", history(3, changed=1), size=100)
        assert store.asked == 2
        fresh = await recall_originals(memory, "me", history(3, changed=1))
        assert (found.known, structs.replace(found, known=0)) == (3, fresh)

    asyncio.run(main())


def test_nobody_gets_what_was_found_for_another_caller() -> None:
    async def main() -> None:
        memory, _ = opened()
        await memory.remember("me", b"", remembered(0))
        await recall_originals(memory, "me", history(1), opening=named("s"), size=100)
        other = await recall_originals(memory, "you", history(1), opening=named("s"), size=100)
        assert not other.replies

    asyncio.run(main())


def test_what_a_broken_store_did_not_show_is_looked_up_again() -> None:
    async def main() -> None:
        memory, store = opened()
        await memory.remember("me", b"", remembered(0))
        store.broken = True
        assert not (await recall_originals(memory, "me", history(1), size=100)).replies
        store.broken = False
        assert (await recall_originals(memory, "me", history(1), size=100)).replies

    asyncio.run(main())


def test_known_histories_hold_no_more_bytes_than_they_may() -> None:
    known = KnownHistories(1000)
    empty = KnownHistory((), (), Originals((), HistoryFingerprints()))
    for number in range(20):
        known.keep(("me", str(number), 0), empty, 300)
    known.keep(("me", "large", 0), empty, 5000)
    assert known.held == 900
    assert known.get(("me", "19", 0)) is not None
    assert known.get(("me", "0", 0)) is None
    assert known.get(("me", "large", 0)) is None


def test_ids_and_images_of_a_history_that_returns_are_known_with_it() -> None:
    async def main() -> None:
        memory, _ = opened()
        shown = Message("user", (Media("image", "image/png", data="aGk="),))
        for turns in range(1, 5):
            messages = [*history(turns), shown] if turns == 2 else history(turns)
            found = await recall_originals(memory, "me", messages, opening=named("s"), size=100)
            assert found.call_ids == {call_id(turn) for turn in range(turns)}
            assert found.has_images is (turns == 2)
        first = await recall_originals(memory, "me", [shown, *history(1)], opening=named("t"), size=100)
        again = await recall_originals(memory, "me", [shown, *history(3)], opening=named("t"), size=100)
        assert (first.has_images, again.has_images) == (True, True)

    asyncio.run(main())


def test_the_makers_of_a_history_are_those_of_the_replies_that_are_still_in_it() -> None:
    async def main() -> None:
        memory, _ = opened()
        other = structs.replace(remembered(2).message, origin=Origin("gemini", "gemini", "", "g"))
        await memory.remember("me", b"", remembered(0))
        await memory.remember(
            "me", b"", RememberedReply(other, "gemini/g", {call_id(2): "c2", "minted": "c2"})
        )
        first = {Maker("anthropic", "anthropic", native=True)}
        for turns, makers in ((1, first), (3, first | {Maker("gemini", "gemini", native=False)}), (2, first)):
            found = await recall_originals(memory, "me", history(turns), opening=named("s"), size=100)
            fresh = await recall_originals(memory, "me", history(turns))
            assert found.makers == fresh.makers == makers

    asyncio.run(main())


def test_two_histories_have_in_common_what_they_begin_with() -> None:
    messages = tuple(history(6))
    known = KnownHistory(messages, (), Originals(messages, HistoryFingerprints(messages)))
    for length in range(len(messages) + 1):
        assert known.common(tuple(history(6)[:length])) == length
        assert known.common((*messages[:length], Message("user", (Text("Else."),)))) == length
    assert known.common(tuple(history(9))) == len(messages)


def test_a_fingerprint_is_the_same_whenever_it_is_asked_for_and_whatever_was_asked_for_before() -> None:
    messages = tuple(history(6))
    for asked in ((), (13,), (4,), (9, 2), (13, 11, 13), (0, 1, 2, 12)):
        known = HistoryFingerprints(messages)
        for count in asked:
            assert known.of(count) == fingerprint_of(messages[:count])
        for common in range(len(messages) + 1):
            longer = (*messages[:common], *history(9, changed=common // 2)[common:])
            continued = known.continued(longer, common)
            for count in range(len(longer), -1, -4):
                assert continued.of(count) == fingerprint_of(longer[:count])
            assert known.whole == fingerprint_of(messages)


def test_a_reply_without_ids_is_found_where_its_place_was_hashed_late_by_another_gateway() -> None:
    async def main() -> None:
        store = CountingStore()
        first = Memory(store, InstallationKey(b"k" * 32), cache_bytes=0)
        said = Message("model", (Reasoning("Hm.", Seal(MAKER, "seal")), Text("Done.")), MAKER)
        for turns in (3, 5):
            asked = await recall_originals(first, "me", history(turns), opening=named("s"), size=100)
        await first.remember("me", asked.fingerprint, RememberedReply(said, "anthropic/m"))
        second = Memory(store, InstallationKey(b"k" * 32), cache_bytes=0)
        shown = [*history(5), Message("model", (Text("Done."),)), Message("user", (Text("Go on."),))]
        for memory in (first, second):
            found = await recall_originals(memory, "me", shown, opening=named("s"), size=100)
            assert found.messages[11] == said

    asyncio.run(main())
