from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.embedded.sentences import sentence
from segue.conversation.blocks import Origin, ToolCall, ToolResult
from segue.conversation.events import Event, Finished, ReasoningDelta, TextDelta, fold
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolChoice, ToolSpec
from segue.errors import UsageError
from segue.providers.adapter import ChatRequest
from segue.providers.embedded.grammar import FORMS, FormName, offer_for
from segue.providers.embedded.provider import EmbeddedProvider
from segue.transcript.text_tools.form import Offer
from segue.transcript.text_tools.reader import TextToolReader

WEATHER = ToolSpec(
    "weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
CLOCK = ToolSpec("clock")
OFFER = Offer(tools=(WEATHER, CLOCK))
MUST = Offer(tools=(WEATHER, CLOCK), must_call=True)
CALL = '{"name": "weather", "arguments": {"city": "Paris"}}'
cuts = st.lists(st.integers(0, 400), max_size=8)
both_forms = pytest.mark.parametrize("form", ["json", "react"])


def _reader(form: FormName, offer: Offer = OFFER) -> TextToolReader:
    return TextToolReader(FORMS[form].form.new_scanner(offer))


def _read(form: FormName, text: str, offer: Offer = OFFER, at: list[int] | None = None) -> dict[str, Any]:
    """What a reply comes to, read in the portions that the cuts make of it."""
    reader = _reader(form, offer)
    places = [0, *sorted({cut for cut in at or [] if 0 < cut < len(text)}), len(text)]
    events: list[Event] = []
    for start, end in pairwise(places):
        events += reader.feed(TextDelta(0, text[start:end]))
    reply = fold([*events, *reader.close()], Origin())
    return {
        "text": reply.message.text,
        "thought": "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "calls": [(call.name, call.raw) for call in reply.message.calls],
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


def test_words_are_passed_on_at_once_and_a_call_only_when_it_is_whole() -> None:
    words = _reader("json")
    assert words.feed(TextDelta(0, "It")) == [TextDelta(0, "It")]
    assert words.feed(TextDelta(0, " rains")) == [TextDelta(0, " rains")]
    call = _reader("json")
    assert [event for character in CALL for event in call.feed(TextDelta(0, character))] == []
    (told,) = fold(call.feed(Finished("stop")), Origin()).message.calls
    assert (told.name, told.raw) == ("weather", '{"city": "Paris"}')


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


def _offered(choice: ToolChoice | None = None) -> Offer:
    return offer_for((WEATHER, CLOCK), Options(tool_choice=choice))


def test_the_choice_of_tools_decides_what_is_offered() -> None:
    assert _offered().names == {"weather", "clock"}
    assert not _offered("auto").must_call
    assert _offered("required").must_call
    assert _offered("none") == Offer()
    named = _offered(Named("clock"))
    assert named.names == {"clock"}
    assert named.must_call
    with pytest.raises(UsageError, match="not offered"):
        _offered(Named("nobody"))


def _body(form: FormName, conversation: Conversation, options: Options = Options(), **more: Any) -> Any:  # noqa: B008 - a frozen value
    """What the engine would get."""
    request = ChatRequest(model="m", conversation=conversation, options=options, **more)
    return msgspec.json.decode(EmbeddedProvider(form=form).preview(request).body)


@both_forms
def test_the_engine_gets_no_tools_but_is_told_of_them_in_words(form: FormName) -> None:
    options = Options(temperature=0.0, tool_choice="auto", parallel_calls=True)
    body = _body(form, _ROUND, options, tools=(WEATHER, CLOCK))
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


_ROUND = Conversation(system="Be brief.").append(
    user("Weather in Rome, and the time?"),
    model(ToolCall("a", "weather", {"city": "Rome"}), ToolCall("b", "clock", {})),
    tool(ToolResult("a", "weather", "sunny"), ToolResult("b", "clock", "dark")),
)


@both_forms
def test_past_calls_are_written_also_when_no_tools_are_offered_any_more(form: FormName) -> None:
    body = _body(form, _ROUND)
    assert "grammar" not in body
    assert '{"name": "weather", "arguments": {"city":"Rome"}}' in body["messages"][2]["content"]
    assert "sunny" in body["messages"][3]["content"]
    assert "call another function" not in body["messages"][3]["content"]


def test_an_answer_may_have_a_shape_beside_the_calls() -> None:
    options = Options(response_schema={"type": "object", "properties": {"a": {"const": 1}}})
    body = _body("json", _ROUND, options, tools=(WEATHER, CLOCK))
    assert "response_format" not in body
    offer = offer_for((WEATHER, CLOCK), options)
    read = [_read("json", sentence(body["grammar"], seed), offer) for seed in range(40)]
    assert {bool(reply["calls"]) for reply in read} == {True, False}
    assert {reply["text"] for reply in read} <= {"", "{}", '{"a": 1}'}


def test_a_grammar_of_the_callers_own_is_left_alone() -> None:
    own = Options(extra={"grammar": 'root ::= "yes"'})
    assert _body("json", _ROUND, own, tools=(WEATHER, CLOCK))["grammar"] == 'root ::= "yes"'
