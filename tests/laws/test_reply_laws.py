"""Laws of replies: whatever a provider answers, on whatever wire, a client of any other gets what it can live with."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from msgspec import structs

from laws.client_turns import (
    WIRES,
    folded,
    next_request,
    read_stream,
    respond_whole,
    responder_for,
    sent_back,
    used_ids,
    write_stream,
)
from laws.emulated import complaints_about
from laws.test_dialect_laws import _unsealed, said, target_of
from segue.conversation.blocks import Media, Reasoning
from segue.conversation.events import (
    CallStarted,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    Sealed,
    TextDelta,
    fold,
)
from segue.conversation.message import Conversation, user
from segue.dialects.registry import DIALECTS
from segue.providers.models.cards import default_model
from segue.transcript.respond import Responder
from strategies.histories import conversations
from strategies.provider_replies import SEAL, THOUGHT, provider_replies
from strategies.replies import cuts, in_portions

EXAMPLES = max(2, settings().max_examples // 3)
makers = st.sampled_from(WIRES)
UNSEALED = ("ANT-55", "RESP-45", "BDR-14")


def history_of(client: str, drawn: Conversation) -> dict[str, Any]:
    """A request of the client, as its own provider accepts it."""
    bare = (*(_unsealed(message) for message in drawn.messages), user("And now?"))
    body = said(client, structs.replace(drawn, messages=bare))[1]
    return {**body, "store": False} if client == "openai_responses" else body


def answers(
    client: str, maker: str, events: list[Event], body: dict[str, Any], sizes: list[int]
) -> list[tuple[Responder, list[Event], bytes, Reply]]:
    """The reply as the client reads it: streamed, cut anywhere, and whole. All it is sent, too."""
    dialect = DIALECTS[client]
    live = responder_for(client, maker, body, "live")
    sent = respond_whole(live, events)
    stream = write_stream(client, sent)
    received = folded(client, read_stream(client, list(in_portions(stream, sizes))))
    still = responder_for(client, maker, body, "whole", streamed=False)
    at_once = respond_whole(still, events)
    whole = dialect.encode_reply(folded(client, at_once))
    read = folded(client, dialect.decode_reply(whole))
    return [(live, sent, stream, received), (still, at_once, whole, read)]


def could_be_home_made(wire: str, events: list[Event]) -> bool:
    """Whether the wire's own provider replies so: it thinks before it calls, if it must, and ends with its calls, if it must.

    Nor is it asked to take back a blank text that it refuses: what it sent itself reaches its client as it is.
    """
    calls = {event.index for event in events if isinstance(event, CallStarted)}
    thinks = any(isinstance(event, ReasoningDelta) and event.text for event in events)
    first = [
        event.index
        for event in events
        if isinstance(event, TextDelta | ReasoningDelta | MediaArrived | CallStarted)
    ]
    blocks = [index in calls for index in dict.fromkeys(first)]
    rules = DIALECTS[wire].rules
    in_order = not rules.calls_last or blocks == sorted(blocks)
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            texts[event.index] = texts.get(event.index, "") + event.text
    taken_back = rules.blank_text or not any(text.isspace() for text in texts.values())
    return in_order and taken_back and (thinks or not calls or rules.reasoning.required == "none")


@pytest.mark.parametrize("client", WIRES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_what_a_client_sends_back_is_accepted_by_its_own_provider(client: str, data: st.DataObject) -> None:
    # A seal that nobody made is refused by everybody, and Gemini's own calls are not without one.
    maker = data.draw(makers.filter(lambda name: name != client or client != "gemini"))
    events = data.draw(provider_replies(maker, seals=maker != client))
    assume(maker != client or could_be_home_made(client, events))
    body = history_of(client, data.draw(conversations(target_of(client)[3], max_size=4)))
    for responder, sent, _, received in answers(client, maker, events, body, data.draw(cuts)):
        note(f"{maker} → {client}: {sent}")
        ids = [call.native_id for call in received.message.calls]
        assert len({*ids, *used_ids(client, body)}) == len(ids) + len(set(used_ids(client, body)))
        if received.error is None:
            assert ids == list(responder.ids)
            following = next_request(client, body, sent_back(client, received))
            note(json.dumps(following)[-3000:])
            refused = complaints_about(following, client, default_model(client), strict=maker != client)
            # Its own provider would have sealed the thoughts that are drawn without a seal here.
            assert [line for line in refused if maker != client or not line.startswith(UNSEALED)] == []


@pytest.mark.parametrize("client", WIRES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_no_client_gets_a_seal_or_a_thought_that_it_cannot_give_back(
    client: str, data: st.DataObject
) -> None:
    maker = data.draw(makers.filter(lambda name: name != client))
    events = data.draw(provider_replies(maker))
    body = history_of(client, Conversation().append(user("Hello")))
    for _, sent, data_sent, received in answers(client, maker, events, body, []):
        note(f"{maker} → {client}: {sent}")
        assert SEAL.encode() not in data_sent
        assert THOUGHT not in received.message.text
        if not DIALECTS[client].client.plain_reasoning:
            assert THOUGHT.encode() not in data_sent


@pytest.mark.parametrize("client", WIRES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_all_that_a_client_does_not_get_is_reported(client: str, data: st.DataObject) -> None:
    maker = data.draw(makers)
    events = data.draw(provider_replies(maker))
    reply = fold(events, DIALECTS[maker].rules.target)
    body = history_of(client, Conversation().append(user("Hello")))
    for responder, sent, _, received in answers(client, maker, events, body, []):
        note(f"{maker} → {client}: {sent}")
        kinds = {repair.kind for repair in responder.repairs}
        if any(isinstance(event, Failed) for event in sent):
            assert received.error is not None
            continue
        assert len(received.message.calls) == len(reply.message.calls)
        if "text_dropped" not in kinds:
            # Texts that came interleaved may be put in another order.
            assert Counter("".join(reply.message.text.split())) <= Counter(received.message.text)
        lost_thought = any(isinstance(block, Reasoning) and block.text for block in reply.message.blocks)
        if lost_thought and not any(isinstance(block, Reasoning) for block in received.message.blocks):
            assert "reasoning_dropped" in kinds
        if any(isinstance(event, Sealed) for event in events) and not any(
            isinstance(event, Sealed) for event in sent
        ):
            assert kinds & {"seal_dropped", "item_dropped", "reasoning_dropped"}
        shown = sum(isinstance(block, Media) for block in received.message.blocks)
        if shown < sum(isinstance(block, Media) for block in reply.message.blocks):
            assert kinds & {"media_described", "text_dropped"} or client == maker
        finish = next(event for event in reversed(sent) if isinstance(event, Finished))
        assert received.finish == finish.reason or client in ("ollama", "gemini", "openai_responses")
        assert received.usage.output_tokens == reply.usage.output_tokens
