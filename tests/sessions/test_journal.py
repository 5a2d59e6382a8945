"""A session in the hands of its writer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.errors import JournalError, UsageError
from segue.sessions.entries import (
    Adopted,
    CallBegun,
    CallEnded,
    CallsScheduled,
    Compacted,
    Entry,
    ModelReplied,
    Rewound,
    SessionStarted,
    SettingsChanged,
    Switched,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import Journal, fork
from segue.sessions.leases import Lease
from segue.sessions.state import replay
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.sqlite import SQLiteStore
from sessions.stores_under_test import KINDS, open_store


def said(text: str) -> UserSaid:
    return UserSaid(user(text))


def replied(*blocks: Text | ToolCall | str) -> ModelReplied:
    return ModelReplied(Message("model", tuple(Text(b) if isinstance(b, str) else b for b in blocks)))


async def talk(journal: Journal, question: str, answer: str = "Yes.") -> None:
    await journal.append(said(question))
    await journal.append(replied(answer), TurnEnded())


def texts(journal: Journal) -> list[str]:
    return [message.text for message in journal.state.conversation.messages]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_session_is_the_session_that_was_left(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(kind, tmp_path)
        started = SessionStarted(model="one/a", system="Be brief.", options=Options(temperature=0.5))
        journal = await Journal.start(store, started)
        await talk(journal, "Is it?")
        await journal.close()
        again = await Journal.resume(store, journal.session)
        assert again.state == journal.state
        await talk(again, "Really?")
        assert texts(again) == ["Is it?", "Yes.", "Really?", "Yes."]
        await again.close()
        await store.close()

    asyncio.run(main())


def test_a_crash_in_the_middle_of_a_batch_ends_its_calls_and_its_turn() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted(), "s")
        await journal.append(said("Look."))
        await journal.append(replied(*(ToolCall("", "read") for _ in range(4))))
        calls = journal.state.conversation.messages[-1].calls
        assert [call.id for call in calls] == ["c0", "c1", "c2", "c3"]
        await journal.append(CallsScheduled(calls))
        await journal.append(CallBegun("c0"), CallBegun("c1"))
        await journal.append(CallEnded(ToolResult("c1", "read", "contents")))

        again = await Journal.resume(store, "s", take_over=True)  # this process lives, as far as it knows
        assert not again.state.in_turn
        results = again.state.conversation.messages[-1].blocks
        assert [result.call_id for result in results if isinstance(result, ToolResult)] == [
            "c0",
            "c1",
            "c2",
            "c3",
        ]
        statuses = [again.state.ledger[call.id].status for call in calls]
        assert statuses == ["cancelled", "complete", "cancelled", "cancelled"]
        never_ran = again.state.ledger["c2"].result
        assert never_ran is not None
        assert "did not run" in str(never_ran.output)
        entries = len(await store.read("s"))
        await again.close()
        await (await Journal.resume(store, "s")).close()
        assert len(await store.read("s")) == entries  # there is nothing left to close

    asyncio.run(main())


def test_undo_takes_turns_back_and_redo_brings_them_again_until_a_new_one_begins() -> None:
    async def main() -> None:
        journal = await Journal.start(MemoryStore(), SessionStarted(system="Be brief."))
        await talk(journal, "one")
        await talk(journal, "two")
        await journal.append(SettingsChanged(system="Be kind."), Switched(previous="", model="two/b"))
        await journal.undo()
        assert texts(journal) == ["one", "Yes."]
        assert (journal.state.conversation.system, journal.state.model) == ("Be kind.", "two/b")
        await journal.undo()
        assert texts(journal) == []
        with pytest.raises(UsageError, match="nothing to undo"):
            await journal.undo()
        await journal.redo()
        await journal.redo()
        assert texts(journal) == ["one", "Yes.", "two", "Yes."]
        with pytest.raises(UsageError, match="nothing to redo"):
            await journal.redo()
        await journal.undo()
        await talk(journal, "three")
        assert texts(journal) == ["one", "Yes.", "three", "Yes."]
        with pytest.raises(UsageError):
            await journal.redo()
        assert len(await journal.store.read(journal.session)) == journal.state.last_seq  # all is still there

    asyncio.run(main())


def test_nothing_is_undone_while_a_turn_runs() -> None:
    async def main() -> None:
        journal = await Journal.start(MemoryStore(), SessionStarted())
        await talk(journal, "one")
        await journal.append(said("two"))
        with pytest.raises(UsageError, match="running"):
            await journal.undo()
        with pytest.raises(JournalError) as refused:
            await journal.append(Rewound(1))
        assert refused.value.code == "turn_open"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ((SessionStarted(),), "misfit"),
        ((Rewound(99),), "no_boundary"),
        ((CallBegun("c9"),), "unknown_call"),
        ((CallEnded(ToolResult("c9", "read", "x")),), "unknown_call"),
        ((CallsScheduled((ToolCall("", "read"),)),), "call_without_id"),
        ((CallsScheduled((ToolCall("c0", "read"),)), CallEnded(ToolResult("c0", "read"))), "empty_result"),
        ((CallsScheduled((ToolCall("c0", "read"),)), ToolsAnswered(("c0",))), "unanswered_call"),
        ((CallsScheduled((ToolCall("c0", "read"),)), TurnEnded()), "unanswered_call"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_written(entries: tuple[Entry, ...], code: str) -> None:
    async def main() -> None:
        journal = await Journal.start(MemoryStore(), SessionStarted())
        await journal.append(said("Look."), TurnEnded())
        with pytest.raises(JournalError) as refused:
            await journal.append(*entries)
        assert refused.value.code == code
        assert len(await journal.store.read(journal.session)) == 3
        await talk(journal, "still usable")

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_many_tasks_enter_the_state_in_the_order_they_are_written(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        store = open_store(kind, tmp_path)
        journal = await Journal.start(store, SessionStarted())
        await asyncio.gather(*(journal.append(said(f"message {number}")) for number in range(20)))
        assert replay(await store.read(journal.session)) == journal.state
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_writer_knows_what_was_written(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(kind, tmp_path)
        journal = await Journal.start(store, SessionStarted())
        for number in range(30):
            tasks = [asyncio.create_task(journal.append(said(f"{number}.{part}"))) for part in range(3)]
            for _ in range(number % 5):
                await asyncio.sleep(0)
            began = number % 5 > 0
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert replay(await store.read(journal.session)) == journal.state
            if began:
                assert f"{number}.2" in texts(journal)  # also while it waited for its turn
        await store.close()

    asyncio.run(main())


def test_a_journal_may_be_used_from_one_loop_after_another(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    journal = asyncio.run(Journal.start(store, SessionStarted()))

    async def crowd() -> None:
        await asyncio.gather(*(journal.append(said("at once")) for _ in range(5)))

    for _ in range(3):
        asyncio.run(crowd())
    assert len(texts(journal)) == 15
    asyncio.run(store.close())


class Flaky(MemoryStore):
    """Writes, and then says it could not."""

    failing = False

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        last = await super().append(lease, entries)
        if self.failing:
            raise JournalError("The disk said so.", code="store_failed")
        return last


def test_a_write_that_arrived_after_all_is_found_by_the_next() -> None:
    async def main() -> None:
        store = Flaky()
        journal = await Journal.start(store, SessionStarted())
        store.failing = True
        with pytest.raises(JournalError):
            await journal.append(said("lost?"))
        store.failing = False
        await journal.append(said("next"))
        assert texts(journal) == ["lost?", "next"]
        assert replay(await store.read(journal.session)) == journal.state

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_held_session_is_kept_beyond_its_lease(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(kind, tmp_path, lease_seconds=0.5)
        journal = await Journal.start(store, SessionStarted())
        async with journal.hold(every=0.1):
            await asyncio.sleep(0.8)
            with pytest.raises(JournalError) as refused:
                await Journal.resume(store, journal.session)
            assert refused.value.code == "session_busy"
        await asyncio.sleep(1.1)  # the lease, and a last renewal that a busy machine ends late
        other = await Journal.resume(store, journal.session)  # it was silent for longer than its lease
        with pytest.raises(JournalError, match="taken over"):
            await journal.append(said("too late"))
        assert journal.fenced
        await other.close()
        await store.close()

    asyncio.run(main())


def test_a_journal_that_was_fenced_off_says_so_without_being_asked() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted())
        async with journal.hold(every=0.02):
            other = await Journal.resume(store, journal.session, take_over=True)
            await asyncio.sleep(0.1)
            assert journal.fenced
        await talk(other, "mine now")
        with pytest.raises(JournalError) as refused:
            await journal.append(said("too late"))
        assert refused.value.code == "fenced"
        await journal.close()
        await talk(other, "still mine")

    asyncio.run(main())


def test_a_fork_goes_its_own_way_from_any_boundary() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted(model="one/a", title="T", directory="/d"))
        await journal.append(said("Look."), replied(ToolCall("c0", "read")))
        await journal.append(
            CallsScheduled(journal.state.conversation.messages[-1].calls),
            CallEnded(ToolResult("c0", "read", "contents")),
            ToolsAnswered(("c0",)),
            replied("Seen."),
            TurnEnded(),
        )
        first = journal.state.last_seq
        await talk(journal, "two")
        late = await journal.fork()
        early = await journal.fork(at=first, session="early")
        assert texts(late) == texts(journal)
        assert texts(early) == ["Look.", "", "", "Seen."]
        assert early.session == "early"
        assert early.state.ledger["c0"].status == "complete"
        link = early.state.started.parent
        assert link is not None
        assert (link.session, link.seq, link.call) == (journal.session, first, "")
        assert (early.state.model, early.state.title, early.state.started.directory) == ("one/a", "T", "/d")
        await early.append(said("More."), replied(ToolCall("", "read")))
        assert early.state.conversation.messages[-1].calls[0].id == "c1"
        assert texts(journal)[-1] == "Yes."
        with pytest.raises(JournalError):
            await journal.fork(at=first + 1)

    asyncio.run(main())


def test_a_compaction_within_a_turn_is_no_place_to_undo_to() -> None:
    async def main() -> None:
        journal = await Journal.start(MemoryStore(), SessionStarted())
        await talk(journal, "one")
        before, places = journal.state.conversation, journal.state.boundaries()
        await journal.append(said("two"))
        await journal.append(
            Compacted(conversation=Conversation((user("two"),)), strategy="truncate"), replied("Yes.")
        )
        assert journal.state.boundaries() == places
        await journal.append(TurnEnded())
        assert journal.state.boundaries() == (*places, journal.state.last_seq)
        await journal.undo()
        assert journal.state.conversation.messages == before.messages
        await journal.redo()
        assert texts(journal) == ["two", "Yes."]

    asyncio.run(main())


def test_a_fork_can_undo_and_redo_what_happened_before_it() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted())
        for prompt in ("one", "two", "three"):
            await talk(journal, prompt)
        await journal.undo()
        copy = await fork(store, journal.session)
        assert copy.state.usage == Usage()
        await copy.redo()
        assert texts(copy) == ["one", "Yes.", "two", "Yes.", "three", "Yes."]
        for left in (["one", "Yes.", "two", "Yes."], ["one", "Yes."], []):
            await copy.undo()
            assert texts(copy) == left
        assert texts(journal) == ["one", "Yes.", "two", "Yes."]
        again = await Journal.resume(store, copy.session, take_over=True)
        assert texts(again) == []

    asyncio.run(main())


def test_a_session_that_is_open_elsewhere_can_be_forked_in_the_middle_of_a_turn() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted())
        await journal.append(said("Look."), replied(ToolCall("c0", "read")))
        copy = await fork(store, journal.session)
        assert not copy.state.in_turn
        assert copy.state.ledger["c0"].status == "cancelled"
        assert journal.state.in_turn
        assert not journal.fenced

    asyncio.run(main())


def test_a_session_is_renamed_and_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "s.db")
        journal = await Journal.start(store, SessionStarted(title="old"))
        await journal.rename("new")
        assert [info.title for info in await store.find()] == ["new"]
        await journal.delete()
        assert await store.find() == []
        await store.close()

    asyncio.run(main())


def test_a_history_is_not_adopted_over_calls_of_the_same_name() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted())
        await journal.append(said("Look."), replied(ToolCall("c0", "read")))
        await journal.close_turn()
        state = journal.state
        with pytest.raises(JournalError):
            await journal.append(
                Adopted(conversation=state.conversation, interactions=tuple(state.ledger.values()))
            )

    asyncio.run(main())


def test_a_session_that_cannot_be_read_is_not_kept_busy(tmp_path: Path) -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await Journal.start(store, SessionStarted(), "s")
        await store.append(journal._lease, [EncodedEntry.of(CallBegun("never scheduled"))])
        await journal.close()
        for _ in range(2):
            with pytest.raises(JournalError) as refused:
                await Journal.resume(store, "s")
            assert refused.value.code == "unknown_call"

    asyncio.run(main())
