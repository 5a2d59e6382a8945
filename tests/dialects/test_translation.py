"""The bytes for a client are the same whether a portion is written at once or event by event."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.client_turns import WIRES
from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Failed, Finished, ReasoningDelta, TextDelta
from segue.dialects.registry import DIALECTS
from segue.dialects.replies.translation import ReplyTranslation
from segue.errors import ProviderError
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder, Visibility
from strategies.replies import replies


def responder(client: str, maker: str, reasoning: Visibility) -> Responder:
    request = ClientRequest(wire=DIALECTS[client].client, nonce="one", model="asked-for")
    return Responder(request, Origin(maker), reasoning=reasoning)


def written_one_by_one(client: str, made: Responder, events: list[Event]) -> bytes:
    encoder = DIALECTS[client].new_encoder("asked-for")
    shown = [one for event in events for one in made.feed(event)] + made.close()
    return b"".join(encoder.feed(event) for event in shown) + encoder.close()


def written_at_once(client: str, made: Responder, portions: list[list[Event]]) -> bytes:
    translation = ReplyTranslation(made, DIALECTS[client].new_encoder("asked-for"))
    return b"".join([translation.feed(portion) for portion in portions]) + translation.close()


@pytest.mark.parametrize("client", WIRES)
@given(
    events=replies(),
    repeats=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 3), min_size=1),
    maker=st.sampled_from(WIRES),
    reasoning=st.sampled_from(["safe", "hide", "show"]),
)
@settings(max_examples=10)
def test_a_reply_in_portions_is_written_as_it_is_event_by_event(
    client: str, events: list[Event], repeats: int, sizes: list[int], maker: str, reasoning: Visibility
) -> None:
    many = [
        again
        for event in events
        for again in ([event] * repeats if isinstance(event, TextDelta | ReasoningDelta) else [event])
    ]
    portions: list[list[Event]] = []
    rest = many
    while rest:
        size = sizes[len(portions) % len(sizes)]
        portions, rest = [*portions, rest[:size]], rest[size:]
    at_once = written_at_once(client, responder(client, maker, reasoning), portions)
    assert at_once == written_one_by_one(client, responder(client, maker, reasoning), many)


@pytest.mark.parametrize("client", WIRES)
def test_a_thought_that_is_hidden_does_not_slow_the_text_behind_it(client: str) -> None:
    events: list[Event] = [ReasoningDelta(0, "hm"), TextDelta(1, "a"), TextDelta(1, "b"), TextDelta(1, "c")]
    events += [Finished("stop")]
    at_once = written_at_once(client, responder(client, "xai", "hide"), [[event] for event in events])
    assert at_once == written_one_by_one(client, responder(client, "xai", "hide"), events)


@pytest.mark.parametrize("client", WIRES)
def test_a_failure_ends_the_text_that_was_open(client: str) -> None:
    events: list[Event] = [TextDelta(0, "a"), TextDelta(0, "b"), Failed(ProviderError("It broke."))]
    at_once = written_at_once(client, responder(client, "xai", "safe"), [[event] for event in events])
    assert at_once == written_one_by_one(client, responder(client, "xai", "safe"), events)
