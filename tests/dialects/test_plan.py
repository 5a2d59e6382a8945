"""A plan is the one answer for a history and a target, and its state changes nothing but the cost."""

from __future__ import annotations

import msgspec
import pytest

from segue.conversation.blocks import Origin, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.plan import Plan, PlanState, plan
from segue.dialects.registry import NAMES
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.text_tools.react import REACT

READ = ToolSpec("read file", "Reads.", {"type": "object", "properties": {"n": {"type": "integer"}}})
TOOLS = (READ,)
ASKED = Conversation(system="Be brief.").append(
    user("Hi"),
    Message("model", (ToolCall("", "read file", {"n": 1}),)),
    Message("tool", (ToolResult("c0", "read file", "one"),)),
    Message("model", (Text("Done."),)),
    user("More."),
)


def planned(
    dialect: str,
    conversation: Conversation = ASKED,
    *,
    model: str = "m",
    card: ModelCard = UNKNOWN,
    policy: Policy = DEFAULT,
    tools: tuple[ToolSpec, ...] = TOOLS,
    previous: PlanState | None = None,
) -> Plan:
    return plan(
        conversation,
        None,
        target=Origin(dialect, "somewhere", "https://host.test", model),
        card=card,
        tools=tools,
        options=Options(model=model),
        policy=policy,
        previous=previous,
    )


@pytest.mark.parametrize("dialect", NAMES)
def test_a_plan_names_who_writes_the_reply_and_every_tool_that_was_renamed(dialect: str) -> None:
    made = planned(dialect)
    assert made.origin == Origin(dialect, "somewhere", "https://host.test", "m")
    sent = made.transcript.names["read file"]
    assert made.names == {sent: "read file"}
    assert sent.encode() in made.body


@pytest.mark.parametrize("dialect", NAMES)
def test_a_state_of_another_model_card_policy_or_conversation_changes_nothing(dialect: str) -> None:
    longer = ASKED.append(Message("model", (Text("Sure."),)), user("And?"))
    other = Conversation(ASKED.messages[:1], "Be long.").append(Message("model", (Text("No."),)), user("So?"))
    states = [
        planned(dialect).state,
        planned(dialect, model="n").state,
        planned(dialect, card=ModelCard(parallel_calls=False)).state,
        planned(dialect, card=ModelCard(system=False)).state,
        planned(dialect, policy=Policy(text_form=REACT)).state,
        planned(dialect, other).state,
    ]
    alone = planned(dialect, longer)
    for state in states:
        continued = planned(dialect, longer, previous=state)
        assert msgspec.json.decode(continued.body) == msgspec.json.decode(alone.body)
        assert continued.repairs == alone.repairs


@pytest.mark.parametrize("dialect", NAMES)
def test_a_state_of_other_tools_changes_nothing(dialect: str) -> None:
    """A tool that is offered now takes the name that an earlier one was sent under."""
    offered = (ToolSpec(planned(dialect).transcript.names["read file"], "Reads.", READ.parameters),)
    alone = planned(dialect, tools=offered)
    continued = planned(dialect, tools=offered, previous=planned(dialect).state)
    assert alone.transcript.names["read file"] != offered[0].name
    assert msgspec.json.decode(continued.body) == msgspec.json.decode(alone.body)
    assert (continued.repairs, continued.names) == (alone.repairs, alone.names)


@pytest.mark.parametrize("provider", ["somewhere", "elsewhere"])
def test_a_state_of_another_provider_keeps_none_of_its_ids(provider: str) -> None:
    def asked(provider: str, previous: PlanState | None = None) -> Plan:
        target = Origin("openai_chat", provider, f"https://{provider}.test", "m")
        return plan(
            history,
            None,
            target=target,
            card=UNKNOWN,
            tools=TOOLS,
            options=Options(model="m"),
            previous=previous,
        )

    call = ToolCall("", "read file", {"n": 1}, native_id="call_issued")
    writer = Origin("openai_chat", "somewhere", "https://somewhere.test", "m")
    history = ASKED.append(Message("model", (call,), origin=writer))
    alone, other = asked(provider), asked("elsewhere" if provider == "somewhere" else "somewhere")
    assert (b"call_issued" in alone.body) == (provider == "somewhere")
    assert asked(provider, other.state).body == alone.body


def test_a_state_can_be_continued_in_two_ways() -> None:
    state = planned("anthropic").state
    first = planned("anthropic", ASKED.append(Message("model", (Text("A."),)), user("a?")), previous=state)
    second = planned("anthropic", ASKED.append(Message("model", (Text("B."),)), user("b?")), previous=state)
    assert b"a?" in first.body
    assert b"a?" not in second.body
    assert b"b?" in second.body


@pytest.mark.parametrize("dialect", NAMES)
def test_a_limit_beyond_what_the_model_writes_is_lowered_and_reported(dialect: str) -> None:
    card = ModelCard(output=30_000)
    made = plan(
        ASKED,
        None,
        target=Origin(dialect, "somewhere", "https://host.test", "m"),
        card=card,
        options=Options(model="m", max_tokens=128_000),
    )
    assert b"128000" not in made.body
    assert b"30000" in made.body
    assert [note.kind for note in made.repairs if "max_tokens" in note.path] == ["option_not_sent"]
