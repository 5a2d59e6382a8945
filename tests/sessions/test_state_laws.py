"""Laws of a session's memory, over everything that may happen to one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings

from laws.legality import complaints
from segue.conversation.blocks import ToolCall, ToolResult, is_real
from segue.conversation.events import FinishReason
from segue.conversation.message import Conversation, Message, model, user
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    Compacted,
    Entry,
    ModelReplied,
    Record,
    Rewound,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    TurnFinish,
    UserSaid,
)
from segue.sessions.entry_codec import decode_entry, encode_entry
from segue.sessions.journal import Journal
from segue.sessions.recovery import closing_entries
from segue.sessions.state import State, replay
from segue.sessions.stores.memory import MemoryStore
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep
from sessions.entry_samples import happenings
from strategies.targets import TARGETS
from transcript.readers import every_target

requirement = pytest.mark.requirement


def records(entries: list[Entry]) -> list[Record]:
    return [Record(seq, 0.0, entry) for seq, entry in enumerate(entries, 1)]


def recovered(state: State) -> State:
    for seq, entry in enumerate(closing_entries(state), state.last_seq + 1):
        state.apply(seq, entry)
    return state


def called(state: State) -> list[str]:
    return [call.id for message in state.conversation.messages for call in message.calls]


@given(entries=happenings())
def test_an_entry_is_read_back_as_it_was_written(entries: list[Entry]) -> None:
    for entry in entries:
        assert decode_entry(encode_entry(entry)) == entry


@given(entries=happenings())
def test_a_replay_composes_no_conversation_until_it_is_asked_for(entries: list[Entry]) -> None:
    # One per message is quadratic: a session of 100,000 messages then takes more than a minute to open.
    state = replay(records(entries))
    assert vars(state)["_conversation"] is None
    assert state.conversation is state.conversation


@requirement("REQ-915-046")
@given(entries=happenings())
def test_what_is_remembered_after_a_crash_is_what_was_remembered_before(entries: list[Entry]) -> None:
    async def main() -> None:
        store = MemoryStore()
        started = entries[0]
        assert isinstance(started, SessionStarted)
        journal = await Journal.start(store, started, "s")
        for entry in entries[1:]:
            await journal.append(entry)
        again = replay(await store.read("s"))
        assert again == journal.state

    asyncio.run(main())


@requirement("REQ-915-026", "REQ-915-028")
@settings(max_examples=20)  # each is cut at some twenty places, and each cut rendered for every target
@given(entries=happenings(max_turns=2))
def test_a_crash_between_any_two_entries_leaves_a_session_that_goes_on(entries: list[Entry]) -> None:
    for cut in range(1, len(entries) + 1):
        state = recovered(replay(records(entries[:cut])))
        assert not state.in_turn
        assert state.open_calls() == ()
        assert closing_entries(state) == []  # once is enough
        asked = state.conversation.append(user("Go on."))
        for rules in TARGETS.values():
            transcript = render(asked, state.ledger, rules)
            assert list(complaints(transcript, rules)) == []


@pytest.mark.parametrize(
    ("reply", "finish", "ended"),
    [
        (model("Done."), "stop", "complete"),
        (model("Do"), "length", "cancelled"),
        (model("Wait.", ToolCall("c0", "read")), "stop", "cancelled"),
        (model(ToolCall("c0", "read")), "tool_calls", "cancelled"),
        (model(), "stop", "complete"),
    ],
)
def test_a_turn_is_complete_after_a_crash_only_if_its_last_reply_was_whole_and_called_nothing(
    reply: Message, finish: FinishReason, ended: TurnFinish
) -> None:
    begun: list[Entry] = [SessionStarted(model="m"), UserSaid(user("Hi")), ModelReplied(reply, finish)]
    assert closing_entries(replay(records(begun)))[-1] == TurnEnded(ended)


@given(entries=happenings())
def test_what_recovery_writes_is_read_back_to_the_same_state(entries: list[Entry]) -> None:
    for cut in range(1, len(entries) + 1):
        state = replay(records(entries[:cut]))
        closing = closing_entries(state)
        assert replay(records([*entries[:cut], *closing])) == recovered(state)


@given(entries=happenings())
def test_no_real_result_is_lost_in_a_crash(entries: list[Entry]) -> None:
    for cut in range(1, len(entries) + 1):
        before = replay(records(entries[:cut]))
        real = {
            call_id: interaction.result
            for call_id, interaction in before.ledger.items()
            if interaction.result is not None and is_real(interaction.result)
        }
        after = recovered(before)
        assert {call_id: after.ledger[call_id].result for call_id in real} == real


@given(entries=happenings())
def test_a_started_call_may_have_had_effects_and_another_has_not(entries: list[Entry]) -> None:
    for cut in range(1, len(entries) + 1):
        before = replay(records(entries[:cut]))
        pending = before.open_calls()
        after = recovered(before)
        for call_id in pending:
            result = after.ledger[call_id].result
            assert isinstance(result, ToolResult)
            assert result.reason == "interrupted"
            assert (result.output is None) is (call_id in after.begun)


@requirement("REQ-915-026", "REQ-915-027")
@pytest.mark.parametrize("again", [False, True], ids=["in this process", "after a restart"])
@every_target
def test_a_session_knows_after_a_compaction_what_a_call_that_is_left_returned(
    rules: Rules, *, again: bool
) -> None:
    call = ToolCall("c0", "read", {"path": "a"})
    before: list[Entry] = [
        SessionStarted(model="m"),
        UserSaid(user("Read a.")),
        ModelReplied(model(call), "tool_calls"),
        CallsScheduled((call,)),
        CallBegun("c0"),
        CallEnded(ToolResult("c0", "read", "what stands in a")),
        ToolsAnswered(("c0",)),
        ModelReplied(model("Read."), "stop"),
        TurnEnded("complete"),
    ]
    compacted = Compacted(
        conversation=Conversation((user("In short: a was read."), model(call))), strategy="summarise"
    )
    state = replay(records(before))
    state.apply(len(before) + 1, compacted)
    if again:
        state = replay(records([*before, compacted]))
    assert state.ledger["c0"].result == ToolResult("c0", "read", "what stands in a")
    transcript = render(state.conversation.append(user("Go on.")), state.ledger, rules)
    assert list(complaints(transcript, rules)) == []
    (sent,) = [one for step in transcript.steps if isinstance(step, ModelStep) for one in step.calls]
    assert (sent.completion.text, sent.completion.reason) == ("what stands in a", None)


@requirement("REQ-915-014")
@given(entries=happenings())
def test_an_id_is_never_given_to_a_second_call(entries: list[Entry]) -> None:
    given_to: dict[str, int] = {}
    state = State()
    for seq, entry in enumerate(entries, 1):
        known = set(called(state)) | set(given_to) | set(state.ledger)
        state.apply(seq, entry)
        if isinstance(entry, ModelReplied):
            new = [
                block.id for block in state.conversation.messages[-1].blocks if isinstance(block, ToolCall)
            ]
            assert not known & set(new)
            given_to |= dict.fromkeys(new, seq)


def test_a_compaction_that_forgot_every_call_does_not_forget_their_ids() -> None:
    state = State()
    state.apply(1, SessionStarted())
    state.apply(2, ModelReplied(model(ToolCall("", "read"), ToolCall("", "read"))))
    state.apply(3, Compacted(conversation=Conversation((user("So far: much."),)), strategy="cut"))
    state.apply(4, ModelReplied(model(ToolCall("", "read"))))
    assert called(state) == ["c2"]


@given(entries=happenings())
def test_a_rewound_conversation_is_what_it_was_under_the_prompt_of_today(entries: list[Entry]) -> None:
    state = State()
    after: dict[int, Any] = {}
    for seq, entry in enumerate(entries, 1):
        state.apply(seq, entry)
        if seq in state.boundaries():
            after[seq] = state.conversation.messages
        if isinstance(entry, Rewound):
            assert state.conversation.messages == after[entry.to]
    for place in state.boundaries():
        assert state.conversation_after(place).messages == after[place]
        assert state.conversation_after(place).system == state.conversation.system


@given(entries=happenings())
def test_redo_is_the_opposite_of_undo(entries: list[Entry]) -> None:
    state = replay(records(entries))
    trail = []
    while (to := state.undo_to) is not None:
        trail.append(state.conversation.messages)
        state.apply(state.last_seq + 1, Rewound(to))
    for messages in reversed(trail):
        assert state.redo_to is not None
        state.apply(state.last_seq + 1, Rewound(state.redo_to))
        assert state.conversation.messages == messages
