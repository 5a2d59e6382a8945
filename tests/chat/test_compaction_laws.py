"""Compaction over arbitrary histories: it never splits a pair, and every target accepts what is left."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.emulated import EMULATED, complaints_about
from laws.legality import complaints
from segue.chat.compaction.compact import CompactionResult, Summariser, compact
from segue.chat.compaction.strategies import cut, last_prompt, units_of
from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import fit_rules
from segue.dialects.registry import DIALECTS
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.blocks.value_text import arguments_of, text_of
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript
from strategies.histories import Told, conversations, whole_conversations
from strategies.targets import Replay, for_every_target

requirement = pytest.mark.requirement
TOOLS = (ToolSpec("read", "Reads."), ToolSpec("write", "Writes."))
strategies = st.sampled_from(("summarise", "middle_out", "truncate", "elide_results"))
summaries = st.sampled_from(("They talked.", "", "long " * 200, None))


def count(conversation: Conversation) -> int:
    total = len(conversation.system)
    for message in conversation.messages:
        for block in message.blocks:
            total += 4
            match block:
                case Text() | Reasoning():
                    total += len(block.text)
                case Code():
                    total += len(block.code)
                case ToolCall():
                    total += len(arguments_of(block)[0])
                case ToolResult():
                    total += len(block.error or text_of(block.output)) + 100 * len(block.media)
                case Media():
                    total += 100
    return total


def pairs(transcript: Transcript) -> Counter[tuple[str, str, bool, str | None]]:
    """Every call with how it ended."""
    return Counter(
        (call.arguments, call.completion.text, call.completion.is_error, call.completion.reason)
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for call in step.calls
    )


def shorten(conversation: Conversation, ledger: Any, draw: Any) -> CompactionResult | None:
    summary = draw(summaries)

    async def summarise(asked: Conversation) -> str:
        if summary is None:
            raise TimeoutError
        return str(summary)

    return asyncio.run(
        compact(
            conversation,
            ledger,
            strategy=draw(strategies),
            budget=draw(st.integers(0, count(conversation))),
            count=count,
            summarisers=[Summariser(summarise)],
        )
    )


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@given(data=st.data())
@for_every_target
def test_no_cut_at_any_point_splits_a_pair(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    whole = pairs(render(conversation, None, rules))
    units = units_of(conversation.messages)
    assert [place for unit in units for place in unit] == list(range(len(conversation.messages)))
    gap = range(*sorted(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))))
    for gone in (*(range(cut_point) for cut_point in range(1, len(units))), gap):
        if len(set(gone) & set(range(len(units)))) == len(units):
            continue
        transcript = render(cut(conversation, units, gone), None, rules)
        assert pairs(transcript) <= whole
        assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@given(data=st.data())
@for_every_target
def test_what_any_history_is_compacted_to_is_legal_everywhere(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    before = pairs(render(conversation, None, rules))
    done = shorten(conversation, None, data.draw)
    if done is None:
        return
    left = done.conversation
    assert done.tokens_after == count(left) < done.tokens_before == count(conversation)
    assert left.system == conversation.system
    assert left.minted >= conversation.minted
    prompt = last_prompt(conversation.messages)
    if prompt is not None:
        assert _words(conversation.messages[prompt]) in [_words(message) for message in left.messages]
    transcript = render(left, None, rules)
    assert list(complaints(transcript, rules)) == []
    elided = sum(
        type(block) is ToolResult and block.elided for message in left.messages for block in message.blocks
    )
    assert (pairs(transcript) - before).total() <= elided


def _words(message: Message) -> list[Any]:
    """What a message says itself; broken histories keep results beside it."""
    return [block for block in message.blocks if type(block) is not ToolResult]


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@given(data=st.data())
@for_every_target
def test_interactions_outlive_compaction_in_the_ledger_and_in_every_render(
    rules: Rules, data: Replay
) -> None:
    told: Told = data.draw(whole_conversations(rules.target, max_turns=4))
    ledger = rebuild(told.conversation)
    known = {key: (held.call.name, held.status, held.result) for key, held in ledger.items()}
    lost = data.draw(st.sets(st.sampled_from(sorted(told.outputs)))) if told.outputs else set()
    conversation = Conversation(
        tuple(_without_results(message, lost) for message in told.conversation.messages),
        told.conversation.system,
        told.conversation.minted,
    )
    done = shorten(conversation, ledger, data.draw)
    assert {key: (held.call.name, held.status, held.result) for key, held in ledger.items()} == known
    left = conversation if done is None else done.conversation
    transcript = render(left, ledger, rules)
    assert list(complaints(transcript, rules)) == []
    for step in transcript.steps:
        if isinstance(step, ModelStep):
            for call in step.calls:
                assert call.completion.text == told.outputs[call.call_id]
    grown = left.append(Message("model", (ToolCall("", "read"),)))
    assert grown.messages[-1].calls[0].id not in told.outputs


def _without_results(message: Message, lost: set[str]) -> Message:
    return Message(
        message.speaker,
        tuple(block for block in message.blocks if not (type(block) is ToolResult and block.call_id in lost)),
        message.origin,
    )


@given(data=st.data())
def test_what_was_compacted_to_fit_needs_no_compaction_again(data: st.DataObject) -> None:
    conversation = data.draw(conversations(Rules(), max_size=9))
    conversation = adopt(conversation.messages, system=conversation.system).conversation
    budget = data.draw(st.integers(0, 400))

    def again(tried: Conversation) -> CompactionResult | None:
        return asyncio.run(compact(tried, None, strategy="truncate", budget=budget, count=count))

    done = again(conversation)
    if done is not None:
        assert done.fits == (done.tokens_after <= budget)
        # Where it cannot fit, all was left out that may be: there is nothing to gain by another try.
        assert again(done.conversation) is None


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@given(data=st.data())
def test_no_emulator_has_anything_against_what_was_compacted(data: st.DataObject) -> None:
    told: Told = data.draw(whole_conversations(max_turns=4))
    ledger = rebuild(told.conversation)
    done = shorten(told.conversation, ledger, data.draw)
    left = (told.conversation if done is None else done.conversation).append(user("Go on."))
    for name in EMULATED:
        model = default_model(name)
        card = card_for_model(model, name)
        rules = fit_rules(DIALECTS[name].rules.at(model=model), card)
        transcript = render(left, ledger, rules)
        encoded = DIALECTS[name].encode_request(transcript, TOOLS, Options(model=model), card)
        assert complaints_about(json.loads(encoded.body), name, model) == []
