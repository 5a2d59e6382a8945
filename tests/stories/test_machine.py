"""A machine that does to a chat whatever users, providers, tools and power cuts do, in any order.

After every step: all providers would accept what comes next, nothing real is lost, no tool ran twice, no end of a call
changed, and the journal tells exactly the state that is remembered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from segue.chat.chat import Chat
from segue.conversation.blocks import Text, ToolResult, is_real
from segue.conversation.document import decode_document
from segue.conversation.interaction import Interaction
from segue.conversation.message import Conversation
from segue.errors import JournalError, UsageError
from segue.events import ChatEvent, Finish, TextChunk, ToolCallResult
from segue.sessions.entries import (
    Compacted,
    Entry,
    ModelReplied,
    Switched,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.leases import this_process
from segue.sessions.state import replay
from segue.sessions.stores.memory import MemoryStore
from stories.machine_plans import Turn, When, quiet_turns, turns, whens
from stories.machine_play import play, ticks
from stories.machine_world import OTHERS, SETTINGS, SINGLE, TARGETS, WORD, World, wire_of

T = TypeVar("T")
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
STRATEGIES = ("summarise", "middle_out", "truncate", "elide_results")
SECONDS = 20.0
"""Nothing here takes longer; whatever does, hangs."""


class ChatMachine(RuleBasedStateMachine):
    """One chat in one world. Every rule leaves it at rest."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.mishaps: list[str] = []
        """What went wrong where nobody was waiting for it."""
        self.loop.set_exception_handler(lambda _, context: self.mishaps.append(repr(context)))
        self.world = World()
        self.store = MemoryStore()
        self.sessions = 0
        self.ends: dict[str, Interaction] = {}
        """How calls of this session ended, as first seen."""
        self.spare: list[Chat] = []
        self.past: list[Conversation] = []
        """What undo should give, the nearest last; nothing while that is not known."""
        self.judged: tuple[str, int] | None = None
        self.future: list[Conversation] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    @initialize(to=st.sampled_from(TARGETS), options=st.sampled_from(SETTINGS))
    def begin(self, to: str, options: Any) -> None:
        self.sessions += 1
        self.chat = self.world.chat(
            to, self.store, f"s{self.sessions}", options=options, system="You are asked things."
        )
        self.run(self.chat.open())

    # Turns

    @rule(turn=turns(TARGETS))
    def take_turn(self, turn: Turn) -> None:
        self.run(self._take_turn(turn))

    @rule(turn=quiet_turns())
    def take_quiet_turn(self, turn: Turn) -> None:
        self.run(self._take_turn(turn))

    @rule(turn=turns(TARGETS), to=st.sampled_from(TARGETS))
    def switch_and_take_turn(self, turn: Turn, to: str) -> None:
        self.switch(to)
        self.run(self._take_turn(turn))

    async def _take_turn(self, turn: Turn) -> None:
        chat, world = self.chat, self.world
        before, since = chat.journal.state.last_seq, len(world.emulator.log)
        conversation = chat.conversation
        single = len(chat.router.routes) == 1
        asked = world.word("asked")
        heard, meant = await play(world, chat, turn, asked)
        assert not chat.busy
        entries = [record.entry for record in await self.store.read(chat.id, after=before)]
        self._check_turn(entries, heard, asked, whole=turn.way == "stream")
        if meant:
            assert chat.model == world.router(meant[-1]).name, "the last switch asked for holds"
        self._check_wires(since, entries, single=single)
        if any(isinstance(entry, Compacted) for entry in entries):
            self.past.clear()
        elif any(isinstance(entry, UserSaid) for entry in entries):
            self.past.append(conversation)
        self.future.clear()

    def _check_turn(self, entries: list[Entry], heard: list[ChatEvent], asked: str, *, whole: bool) -> None:
        finishes = [event for event in heard if type(event) is Finish]
        assert len(finishes) == whole or not whole, heard
        assert not finishes or heard[-1] is finishes[-1]
        begun = [entry for entry in entries if isinstance(entry, UserSaid)]
        ended = [entry for entry in entries if isinstance(entry, TurnEnded)]
        assert len(begun) == len(ended) <= 1
        if finishes and ended:
            assert finishes[0].reason == ended[0].finish
        kept = "".join(entry.message.text for entry in entries if isinstance(entry, ModelReplied))
        shown = "".join(event.text for event in heard if type(event) is TextChunk)
        assert kept.startswith(shown), (kept, shown)
        assert not whole or kept == shown
        for event in heard:
            if type(event) is ToolCallResult:
                assert self.chat.ledger[event.call.id].result == event.result
        told = words_in(self.chat.conversation)
        if begun and not any(isinstance(entry, Compacted) for entry in entries):
            assert asked in told
            assert set(WORD.findall(kept)) <= told

    def _check_wires(self, since: int, entries: list[Entry], *, single: bool) -> None:
        requests = self.world.asked(since)
        wires = [wire_of(entry) for entry in requests]
        if single:
            assert len(set(wires)) <= 1, wires
        for before, after in pairwise(requests):
            if wire_of(before) != wire_of(after):
                assert before.verdict == "fault", "only a failure moves a turn"
        end = next((at for at, entry in enumerate(entries) if isinstance(entry, TurnEnded)), len(entries))
        inside = [entry for entry in entries[:end] if isinstance(entry, Switched)]
        assert all(entry.reason == "failover" for entry in inside if entries.index(entry) > 0), inside

    # Crashes

    @rule(turn=turns(TARGETS), when=whens, to=st.sampled_from(TARGETS))
    def crash(self, turn: Turn, when: When, to: str) -> None:
        """The power fails in the middle of a turn; the session goes on from what is on disk."""
        self.run(self._crash(turn, when.number, to))

    async def _crash(self, turn: Turn, count: int, target: str) -> None:
        lost, session = self.chat, self.chat.id
        dying = asyncio.ensure_future(play(self.world, lost, turn, self.world.word("asked")))
        await ticks(count)
        encoded = [EncodedEntry.of(record.entry) for record in await self.store.read(session)]
        deeds = self.world.deeds.copy()
        lost.cancel()
        await dying
        await lost.close()
        self.store = MemoryStore()
        lease = await self.store.create(session, encoded[0], this_process())  # type: ignore[arg-type]
        if encoded[1:]:
            await self.store.append(lease, encoded[1:])
        await self.store.release(lease)
        self.world.deeds = deeds
        self.judged = None
        self.ends = {}  # the calls that came after are none of this life
        begun = replay(await self.store.read(session)).open_calls()
        self.chat = self.world.chat(target, self.store, session)
        await self.chat.open()
        for call_id in begun:
            result = self.chat.ledger[call_id].result
            assert result is not None
            assert result.reason == "interrupted"
            deeds.found.pop((session, call_id), None)  # nobody had heard of it
        for spare in self.spare:
            await spare.close()
        self.spare.clear()
        self.past.clear()
        self.future.clear()

    @rule(turn=turns(TARGETS), when=whens, to=st.sampled_from(TARGETS))
    def take_over(self, turn: Turn, when: When, to: str) -> None:
        """Another process takes the session over; this one is still alive and knows nothing of it."""
        self.run(self._take_over(turn, when.number, to))

    async def _take_over(self, turn: Turn, count: int, target: str) -> None:
        old, session = self.chat, self.chat.id
        playing = asyncio.ensure_future(play(self.world, old, turn, self.world.word("asked")))
        await ticks(count)
        self.chat = self.world.chat(target, self.store, session, take_over=True)
        await self.chat.open()
        known = dict(self.chat.ledger)
        (done,) = await asyncio.gather(playing, return_exceptions=True)
        await old.close()
        assert dict(self.chat.ledger) == known, "a stale owner writes nothing"
        if isinstance(done, BaseException):
            # Of a switch, or because it wanted to open the session again.
            assert getattr(done, "code", "") in ("fenced", "session_busy"), done
        for call_id, interaction in known.items():
            if interaction.result is not None and interaction.result.reason == "interrupted":
                self.world.deeds.found.pop(
                    (session, call_id), None
                )  # it ended after the new owner had closed it
        self.past.clear()
        self.future.clear()

    @rule(to=st.sampled_from(TARGETS))
    def resume(self, to: str) -> None:
        """Close and open again, perhaps with another model."""

        async def main() -> None:
            before, session = self.chat.conversation, self.chat.id
            await self.chat.close()
            self.chat = self.world.chat(to, self.store, session)
            await self.chat.open()
            assert self.chat.conversation == before

        self.run(main())

    # Between turns

    @rule(to=st.sampled_from(TARGETS))
    def switch(self, to: str) -> None:
        told = self.run(self.chat.switch(self.world.router(to)))
        assert told is not None
        assert self.chat.model == told.model

    @rule()
    def open_twice(self) -> None:
        """Whoever does not say that it wants to take over is told that the session is in use."""
        other = self.world.chat(SINGLE[0], self.store, self.chat.id)
        with pytest.raises(JournalError) as caught:
            self.run(other.open())
        assert caught.value.code == "session_busy"

    @rule(strategy=st.sampled_from(STRATEGIES))
    def compact(self, strategy: Any) -> None:
        before = self.chat.conversation
        try:
            shorter = self.run(self.chat.compact(strategy))
        except UsageError as error:
            assert error.code == "no_summary"
            assert self.chat.conversation == before
            return
        if shorter is not None:
            self.future.clear()

    @rule()
    def undo(self) -> None:
        before = self.chat.conversation
        try:
            self.run(self.chat.undo())
        except UsageError as error:
            assert error.code == "nothing_to_undo"
            return
        if self.past:
            assert self.chat.conversation.messages == self.past.pop().messages
            self.future.append(before)
        else:
            self.future.clear()

    @rule()
    def redo(self) -> None:
        before = self.chat.conversation
        try:
            self.run(self.chat.redo())
        except UsageError as error:
            assert error.code == "nothing_to_redo"
            assert not self.future
            return
        if self.future:
            assert self.chat.conversation.messages == self.future.pop().messages
            self.past.append(before)

    @rule(follow=st.booleans())
    def fork(self, follow: bool) -> None:
        """Go on with the copy, or leave it and go on here."""

        async def main() -> None:
            self.sessions += 1
            forked = await self.chat.fork(session=f"s{self.sessions}")
            assert forked.conversation.messages == self.chat.conversation.messages
            deeds = self.world.deeds
            for (session, call_id), word in list(deeds.found.items()):
                if session == self.chat.id:
                    deeds.found[forked.id, call_id] = word
            if follow:
                self.spare.append(self.chat)
                self.chat = forked
                self.ends = {}
            else:
                self.spare.append(forked)

        self.run(main())

    @precondition(lambda self: self.spare)
    @rule()
    def return_to_another(self) -> None:
        self.spare.insert(0, self.chat)
        self.chat = self.spare.pop()
        self.ends = {}
        self.past.clear()
        self.future.clear()

    @rule(options=st.sampled_from(SETTINGS), system=st.sampled_from([None, "", "Be brief."]))
    def change(self, options: Any, system: str | None) -> None:
        self.run(self.chat.change(options=options, system=system))

    # What always holds

    @invariant()
    def all_is_well(self) -> None:
        self.nothing_fails_behind_the_scenes()
        self.nobody_has_refused_anything()
        self.the_journal_tells_the_state()
        self.no_end_of_a_call_ever_changes()
        self.what_tools_answered_is_kept_and_none_ran_twice()
        self.every_call_has_its_result_behind_it()
        self.every_wire_accepts_what_comes_next_and_is_told_all_of_it()

    def nothing_fails_behind_the_scenes(self) -> None:
        assert not self.mishaps, self.mishaps

    def nobody_has_refused_anything(self) -> None:
        assert not (refused := self.world.refusals()), refused

    def every_wire_accepts_what_comes_next_and_is_told_all_of_it(self) -> None:
        here = self.chat.id, self.chat.journal.state.last_seq
        if self.judged != here:
            self._judge(SINGLE)
            self.judged = here

    def _judge(self, names: tuple[str, ...]) -> None:
        told = words_in(self.chat.conversation)
        for name in names:
            body, complaint = self.world.judge(self.chat, name)
            assert not complaint, f"{name}: {complaint}"
            assert told <= set(WORD.findall(body)), (name, told - set(WORD.findall(body)))

    def the_journal_tells_the_state(self) -> None:
        state = self.chat.journal.state
        assert replay(self.run(self.store.read(self.chat.id))) == state
        assert not state.in_turn
        assert state.open_calls() == ()

    def no_end_of_a_call_ever_changes(self) -> None:
        ledger = self.chat.ledger
        assert all(interaction.finished for interaction in ledger.values())
        assert all(ledger[call_id] == end for call_id, end in self.ends.items())
        self.ends = dict(ledger)

    def what_tools_answered_is_kept_and_none_ran_twice(self) -> None:
        deeds = self.world.deeds
        assert all(times == 1 for times in deeds.begun.values()), deeds.begun
        for (session, call_id), word in deeds.found.items():
            if session == self.chat.id:
                result = self.chat.ledger[call_id].result
                assert result is not None
                assert is_real(result), result
                assert word in str(result), (word, result)

    def every_call_has_its_result_behind_it(self) -> None:
        messages = self.chat.conversation.messages
        for at, message in enumerate(messages):
            calls = [call.id for call in message.calls]
            behind = messages[at + 1].blocks if at + 1 < len(messages) else ()
            results = [block.call_id for block in behind if type(block) is ToolResult]
            assert calls == results, messages[at : at + 2]

    def teardown(self) -> None:
        async def main() -> None:
            for chat in (self.chat, *self.spare):
                await chat.close()

        try:
            if hasattr(self, "chat"):
                self._judge(OTHERS)
                exported, _ = decode_document(self.chat.export())
                assert exported.messages == self.chat.journal.state.history.messages
                self.run(main())
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


def words_in(conversation: Conversation) -> set[str]:
    """What must be told to everybody: what was said and what tools found, not what was thought."""
    blocks = (block for message in conversation.messages for block in message.blocks)
    return {
        word for block in blocks if type(block) in (Text, ToolResult) for word in WORD.findall(str(block))
    }


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.requirement("REQ-915-004", "REQ-915-005", "REQ-915-050")
def test_whatever_happens_every_wire_accepts_what_comes_next_and_nothing_is_lost() -> None:
    run_state_machine_as_test(
        ChatMachine,
        settings=settings(
            settings.get_profile("laws" if LONG else "default"),
            max_examples=2000 if LONG else 50,
            stateful_step_count=50 if LONG else 30,
        ),
    )
