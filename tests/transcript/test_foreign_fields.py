"""A wire's own fields: back to their own wire, and reported where they are not sent."""

from __future__ import annotations

import pytest
from msgspec import structs

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import model, tool, user
from segue.transcript.blocks.foreign_fields import losses, stays_in_place
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, UserStep
from strategies.targets import TARGETS
from transcript.readers import calls_of, said

OWN = Extra("anthropic", fields={"caller": {}}, hints={"cache_control": {}})
RETURNED = structs.replace(TARGETS["anthropic"], instructions="returned")


def test_what_is_lost_is_named_with_what_stands_around_it() -> None:
    around = Extra("anthropic", fields={"name": 1}, hints={"mark": 2})
    assert list(losses(None)) == []
    assert list(losses(OWN)) == [
        ("fields_dropped", "anthropic: caller"),
        ("hints_dropped", "anthropic: cache_control"),
    ]
    inside = Extra("anthropic", fields=OWN.fields, container=around)
    assert list(losses(inside)) == [
        ("fields_dropped", "anthropic: name, caller"),
        ("hints_dropped", "anthropic: mark"),
    ]


@pytest.mark.parametrize("answered", [True, False])
def test_fields_of_a_call_and_its_result_go_back_to_their_own_wire_only(answered: bool) -> None:
    """Also in a history that has to be repaired."""
    call = ToolCall("c0", "read", {}, extra=OWN)
    result = ToolResult("c0", "read", "a", complete=True, extra=OWN)
    open_call = () if answered else (model(ToolCall("c1", "read", {})),)
    history = (
        user("q"),
        model(call, *(open_call[0].blocks if open_call else ())),
        tool(result),
        user("more"),
    )
    own = said(*history, rules=TARGETS["anthropic"])
    assert calls_of(own)[0].extra == OWN
    assert calls_of(own)[0].completion.extra == OWN
    other = said(*history, rules=TARGETS["openai_chat"])
    assert calls_of(other)[0].extra is None
    assert calls_of(other)[0].completion.extra is None
    dropped = [repair.kind for repair in other.repairs if repair.kind.endswith("s_dropped")]
    assert sorted(dropped) == ["fields_dropped"] * 2 + ["hints_dropped"] * 2


def _note(dialect: str = "anthropic") -> list[Text]:
    return [Text("Be kind.", extra=Extra(dialect, form={"role": "system"}))]


def test_a_note_stays_where_its_own_wire_put_it_and_may_take_it() -> None:
    asked, said_so = UserStep((Text("q"),)), ModelStep((Text("a"),))
    assert stays_in_place(RETURNED, [asked], 0, _note())
    assert stays_in_place(RETURNED, [asked, said_so], 1, _note())
    assert not stays_in_place(RETURNED, [asked, said_so], 0, _note())
    assert not stays_in_place(RETURNED, [], 0, _note())
    assert not stays_in_place(RETURNED, [asked], 0, _note("openai_chat"))
    assert not stays_in_place(RETURNED, [asked], 0, [Text("Be kind.")])
    assert stays_in_place(Rules(instructions="inline"), [], 0, [Text("Be kind.")])
    assert not stays_in_place(Rules(instructions="user"), [asked], 0, _note())


def test_a_note_before_a_message_of_the_user_is_sent_with_it_in_order() -> None:
    note = user(*_note())
    note = type(note)("user", note.blocks, instruction=True)
    shown = said(user("q"), note, user("more"), rules=RETURNED)
    texts = [block.text for step in shown.steps for block in step.blocks if type(block) is Text]
    assert texts == ["q", "<system>", "Be kind.", "</system>", "more"]
