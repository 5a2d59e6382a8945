from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.embedded.sentences import sentence
from segue.errors import UsageError
from segue.providers.embedded.forms import FORMS, Delta, FormName, Offer
from segue.providers.embedded.transport import in_plain_words, offered

WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CLOCK = {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}
OFFER = Offer(tools=(WEATHER, CLOCK))
MUST = Offer(tools=(WEATHER, CLOCK), must_call=True)
CALL = '{"name": "weather", "arguments": {"city": "Paris"}}'
cuts = st.lists(st.integers(0, 400), max_size=8)
both_forms = pytest.mark.parametrize("form", ["json", "react"])


def _read(form: FormName, text: str, offer: Offer = OFFER, at: list[int] | None = None) -> dict[str, Any]:
    """What a reply comes to, heard in the portions that the cuts make of it."""
    reader = FORMS[form].reader(offer, "call00001")
    places = [0, *sorted({cut for cut in at or [] if 0 < cut < len(text)}), len(text)]
    deltas: list[Delta] = []
    for start, end in pairwise(places):
        deltas += reader.feed(text[start:end])
    deltas += reader.close()
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    return {
        "text": "".join(delta.get("content", "") for delta in deltas),
        "thought": "".join(delta.get("reasoning_content", "") for delta in deltas),
        "calls": [(call["function"]["name"], call["function"]["arguments"]) for call in calls],
    }


@both_forms
@given(seed=st.integers(0, 1_000_000), at=cuts)
def test_a_reply_is_read_the_same_however_it_is_cut(form: FormName, seed: int, at: list[int]) -> None:
    said = sentence(FORMS[form].grammar(OFFER), seed)
    assert _read(form, said, at=at) == _read(form, said)


@both_forms
@given(seed=st.integers(0, 1_000_000))
def test_a_forced_reply_is_always_one_call_of_an_offered_tool(form: FormName, seed: int) -> None:
    read = _read(form, sentence(FORMS[form].grammar(MUST), seed), MUST)
    ((name, arguments),) = read["calls"]
    assert read["text"] == ""
    assert name in MUST.names
    assert isinstance(msgspec.json.decode(arguments), dict)


@both_forms
@given(seed=st.integers(0, 1_000_000))
def test_a_free_reply_is_either_words_or_a_call(form: FormName, seed: int) -> None:
    read = _read(form, sentence(FORMS[form].grammar(OFFER), seed))
    assert len(read["calls"]) <= 1
    assert not (read["calls"] and read["text"])


def test_words_are_told_at_once_and_a_call_only_when_it_is_whole() -> None:
    words = FORMS["json"].reader(OFFER, "call00001")
    assert words.feed("It") == [{"content": "It"}]
    assert words.feed(" rains") == [{"content": " rains"}]
    call = FORMS["json"].reader(OFFER, "call00001")
    assert [delta for character in CALL for delta in call.feed(character)] == []
    (told,) = call.close()
    assert told["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}


@given(length=st.integers(1, len(CALL) - 1))
def test_a_call_that_was_cut_off_is_no_call_but_nothing_of_it_is_lost(length: int) -> None:
    read = _read("json", CALL[:length])
    assert read["calls"] == []
    assert read["text"] == CALL[:length]


def test_a_call_in_a_fence_is_a_call_and_other_fences_are_words() -> None:
    assert _read("json", f"```json\n{CALL}\n```")["calls"] == [("weather", '{"city": "Paris"}')]
    program = "```python\nprint(1)\n```"
    assert _read("json", program) == {"text": program, "thought": "", "calls": []}


def test_an_object_that_calls_no_offered_tool_is_words() -> None:
    said = '{"name": "format_disk", "arguments": {}}'
    assert _read("json", said) == {"text": said, "thought": "", "calls": []}


def test_a_thought_is_reasoning_and_the_final_answer_is_the_text() -> None:
    read = _read("react", "Thought: easy\nFinal Answer: four\nor so")
    assert read == {"text": "four\nor so", "thought": "easy", "calls": []}
    acted = _read("react", 'Thought: look\nAction: weather\nAction Input: {"city": "Oslo"}')
    assert acted == {"text": "", "thought": "look", "calls": [("weather", '{"city": "Oslo"}')]}


def _asked(**more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": tool} for tool in (WEATHER, CLOCK)]
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools, **more}


def test_the_choice_of_tools_decides_what_is_offered() -> None:
    assert offered(_asked()).names == {"weather", "clock"}
    assert not offered(_asked(tool_choice="auto")).must_call
    assert offered(_asked(tool_choice="required")).must_call
    assert offered(_asked(tool_choice="none")) == Offer()
    named = offered(_asked(tool_choice={"type": "function", "function": {"name": "clock"}}))
    assert named.names == {"clock"}
    assert named.must_call
    with pytest.raises(UsageError, match="not offered"):
        offered(_asked(tool_choice={"type": "function", "function": {"name": "nobody"}}))


@both_forms
def test_the_engine_sees_no_tools_but_is_told_of_them_in_words(form: FormName) -> None:
    asked = _asked(messages=_ROUND, temperature=0.0, tool_choice="auto", parallel_tool_calls=True)
    body = in_plain_words(asked, offered(asked), FORMS[form])
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
    assert body["temperature"] == 0.0
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    system, _, called, answered = (message["content"] for message in body["messages"])
    assert system.startswith("Be brief.")
    assert '"weather"' in system
    assert "weather" in called
    assert '{"city":"Rome"}' in called
    assert "sunny" in answered
    assert "dark" in answered
    assert all(set(message) == {"role", "content"} for message in body["messages"])


_ROUND: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Rome, and the time?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            {"id": "b", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "sunny"},
    {"role": "tool", "tool_call_id": "b", "content": "dark"},
]


def test_past_calls_are_spelt_also_when_no_tools_are_offered_any_more() -> None:
    body = in_plain_words({"model": "m", "messages": _ROUND}, Offer(), FORMS["react"])
    assert "grammar" not in body
    assert '{"name": "weather", "arguments": {"city":"Rome"}}' in body["messages"][2]["content"]


def test_an_answer_may_have_a_shape_beside_the_calls() -> None:
    shape = {
        "type": "json_schema",
        "json_schema": {"schema": {"type": "object", "properties": {"a": {"const": 1}}}},
    }
    asked = _asked(response_format=shape)
    body = in_plain_words(asked, offered(asked), FORMS["json"])
    assert "response_format" not in body
    read = [_read("json", sentence(body["grammar"], seed), offered(asked)) for seed in range(40)]
    assert {bool(reply["calls"]) for reply in read} == {True, False}
    assert {reply["text"] for reply in read} <= {"", "{}", '{"a": 1}'}


def test_a_grammar_of_the_callers_own_is_left_alone() -> None:
    asked = _asked(grammar='root ::= "yes"')
    assert in_plain_words(asked, offered(asked), FORMS["json"])["grammar"] == 'root ::= "yes"'
