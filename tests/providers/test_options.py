"""No option is dropped in silence: on every wire, for every kind of model, alone and beside any other option."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.dialects.plan import Plan
from segue.dialects.registry import NAMES
from segue.providers.adapter import ChatRequest
from segue.providers.models.cards import card_for_model, card_table, default_model
from segue.providers.requests.request_writer import KeptPlans, RequestWriter
from strategies.provider_places import WEATHER

VALUES: dict[str, Any] = {
    "max_tokens": 77,
    "temperature": 0.0,
    "top_p": 0.5,
    "top_k": 7,
    "repeat_penalty": 1.5,
    "seed": 0,
    "stop": ("END",),
    "tool_choice": "required",
    "parallel_calls": False,
    "effort": "high",
    "thinking_budget": 2048,
    "response_schema": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "extra": {"nobody_knows_this": 1},
}
"""Zero, too, is a wish."""
ABOUT_TOOLS = ("tool_choice", "parallel_calls")


def test_all_options_are_looked_at() -> None:
    # What a wire has of its own is looked at in tests/dialects/test_extra_fields.py.
    assert set(VALUES) == set(Options.__struct_fields__) - {"model", "stream", "own"}


def kinds_of_models(dialect: str) -> dict[ModelCard, str]:
    """A model for each card that holds on a wire, the unknown one among them."""
    patterns = [card.match for card in card_table().cards]
    names = [
        "nobody-knows-it",
        default_model(dialect),
        *(p.replace("*", "") for p in patterns if "[" not in p),
    ]
    return {card_for_model(name, dialect): name for name in names}


def written(dialect: str, model: str, card: ModelCard, **options: Any) -> Plan:
    tools = (WEATHER,) if card.chat_tools else ()
    request = ChatRequest(model=model, conversation=Conversation().append(user("Hi.")), tools=tools)
    given = Options(model=model, stream=True, **options)
    return RequestWriter(dialect, "p", "http://p.test", KeptPlans()).write(request, given, card)


@pytest.mark.parametrize("dialect", NAMES)
def test_an_option_is_sent_or_reported_but_never_dropped_in_silence(dialect: str) -> None:
    silent = []
    for card, model in kinds_of_models(dialect).items():
        without: dict[str, Plan] = {"": written(dialect, model, card)}
        without |= {name: written(dialect, model, card, **{name: VALUES[name]}) for name in VALUES}
        for beside, option in permutations(without, 2):
            if not option:
                continue
            asked = {name: VALUES[name] for name in (beside, option) if name}
            sent = written(dialect, model, card, **asked)
            reported = any(option in repair.path for repair in sent.repairs)
            if option in ABOUT_TOOLS:  # where there are no tools, or all of them are reported, that says it
                reported |= not card.chat_tools or any(repair.path == "tools" for repair in sent.repairs)
            if sent.body == without[beside].body and not reported:
                silent.append((model, option, beside))
    assert not silent


@pytest.mark.parametrize("dialect", NAMES)
def test_a_budget_for_thoughts_beside_the_wish_for_none_is_sent_or_reported(dialect: str) -> None:
    for card, model in kinds_of_models(dialect).items():
        alone = written(dialect, model, card, effort="none")
        both = written(dialect, model, card, effort="none", thinking_budget=2048)
        reported = any("thinking_budget" in repair.path for repair in both.repairs)
        assert reported or both.body != alone.body, model
