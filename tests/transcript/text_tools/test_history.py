"""Past calls and results for targets without tools: nothing real is lost, and nothing native is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from laws.legality import complaints
from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Conversation, model, tool, user
from segue.dialects.card import ModelCard, fit_rules
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript
from segue.transcript.text_tools.history import PAIRING_ONLY
from segue.transcript.text_tools.react import REACT
from strategies.histories import conversations, whole_conversations
from strategies.targets import Replay, for_every_target
from transcript.readers import parse_react

WITHOUT_TOOLS = ModelCard(tools=False)


def texts_of(transcript: Transcript) -> list[str]:
    return [message.text for message in transcript.conversation().messages]


@given(data=st.data())
@for_every_target
def test_no_target_without_tools_gets_a_call_or_loses_a_result(rules: Rules, data: Replay) -> None:
    rules = fit_rules(rules, WITHOUT_TOOLS)
    told = data.draw(whole_conversations(rules.target))
    transcript = render(told.conversation, None, rules)
    assert list(complaints(transcript, rules)) == []
    assert not any(step.calls for step in transcript.steps if isinstance(step, ModelStep))
    for output in told.outputs.values():
        assert any(output in text for text in texts_of(transcript))


@given(data=st.data())
@for_every_target
def test_rendering_again_for_a_target_without_tools_changes_nothing(rules: Rules, data: Replay) -> None:
    rules = fit_rules(rules, WITHOUT_TOOLS)
    once = render(data.draw(conversations(rules)), None, rules)
    twice = render(once.conversation(), None, rules)
    assert (twice.steps, twice.repairs) == (once.steps, ())


@given(data=st.data())
@for_every_target
def test_a_render_that_continues_an_earlier_one_writes_the_same_text(rules: Rules, data: Replay) -> None:
    rules = fit_rules(rules, WITHOUT_TOOLS)
    messages = data.draw(conversations(rules)).messages
    previous = render(Conversation(messages[:-1]), None, rules) if messages[:-1] else None
    whole = Conversation(messages)
    anew, continued = render(whole, None, rules), render(whole, None, rules, previous=previous)
    assert (continued.steps, continued.repairs) == (anew.steps, anew.repairs)


def test_each_group_of_calls_is_reported_with_its_ids() -> None:
    asked = Conversation().append(
        user("Go."),
        model(ToolCall("", "read", {}), ToolCall("", "look", {})),
        tool(ToolResult("c0", "read", "x"), ToolResult("c1", "look", "y")),
    )
    transcript = render(asked, None, structs.replace(PAIRING_ONLY, tools=False))
    assert [(repair.kind, repair.call_ids) for repair in transcript.repairs] == [
        ("calls_as_text", ("c0", "c1"))
    ]
    assert not any(repair.lossy for repair in transcript.repairs)
    assert texts_of(transcript)[1:] == [
        '{"name": "read", "arguments": {}}\n{"name": "look", "arguments": {}}',
        "The function read returned: x\nThe function look returned: y",
    ]


def test_a_history_without_calls_stays_as_it_is() -> None:
    asked = Conversation().append(user("Go."), model("Gone."), user("Good."))
    rules = structs.replace(PAIRING_ONLY, tools=False)
    transcript = render(asked, None, rules)
    assert (transcript.steps, transcript.repairs) == (render(asked, None, PAIRING_ONLY).steps, ())


def test_a_malformed_action_stays_what_it_was_and_no_final_answer() -> None:
    written = "Action: read\nAction Input: {'path': 'a'}"
    asked = Conversation().append(
        user("Go."), model("Let me see.", written), user("Error: …"), model("Done.")
    )
    texts = texts_of(render(asked, None, PAIRING_ONLY, Policy(text_form=REACT)))
    assert texts[1] == f"Let me see.\n{written}"
    assert parse_react(texts[1]).problem == "bad_json"
    assert texts[3] == "Final Answer: Done."
