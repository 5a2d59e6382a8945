"""Seals that are bound to the exact prefix: replayed while it stands, dropped from the front when it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from laws.digest import all_text
from laws.legality import complaints
from segue.conversation.blocks import Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.events import CallStarted, Event, Finished, ReasoningDelta, Sealed, TextDelta, fold
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.adopt import adopt
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.render import render
from segue.transcript.rules import ReasoningRules, Rules
from segue.transcript.steps import Transcript
from strategies.targets import TARGETS
from transcript.readers import kinds_of

requirement = pytest.mark.requirement

BOUND = TARGETS["anthropic"]
UNBOUND = structs.replace(BOUND, reasoning=ReasoningRules(replay="sealed"))
ELSEWHERE = TARGETS["openai_chat"]


def thoughts_of(transcript: Transcript) -> list[Reasoning]:
    return [block for step in transcript.steps for block in step.blocks if isinstance(block, Reasoning)]


def numbers_of(transcript: Transcript) -> list[str]:
    return [thought.text for thought in thoughts_of(transcript)]


def reply(number: int, *, call: bool = False) -> list[Event]:
    events: list[Event] = [
        ReasoningDelta(0, f"thought {number}"),
        Sealed(0, f"SEALED {number} ✓=="),
        TextDelta(1, f"said {number}"),
    ]
    if call:
        events.append(CallStarted(2, f"toolu_{number}", "read"))
    return [*events, Finished("tool_calls" if call else "stop")]


class Session:
    """A session with a target whose model thinks: each reply's seals remember what they answered."""

    def __init__(self, rules: Rules = BOUND, policy: Policy = DEFAULT, system: str = "Be brief.") -> None:
        self.rules = rules
        self.policy = policy
        self.conversation = Conversation(system=system)
        self.answered = 0

    def says(self, *messages: Message) -> Session:
        self.conversation = self.conversation.append(*messages)
        return self

    def is_answered(self, *, call: bool = False) -> Session:
        self.answered += 1
        made_under = self.rendered().fingerprint
        answer = fold(reply(self.answered, call=call), self.rules.target, made_under=made_under)
        return self.says(answer.message)

    def rendered(self, rules: Rules | None = None, policy: Policy | None = None) -> Transcript:
        return render(self.conversation, None, rules or self.rules, policy or self.policy)


def thinking_session(rules: Rules = BOUND, policy: Policy = DEFAULT) -> Session:
    session = Session(rules, policy).says(user("question 1")).is_answered(call=True)
    session.says(tool(ToolResult("c0", "read", "content"))).is_answered()
    return session.says(user("question 2")).is_answered().says(user("question 3"))


ALL = ["thought 1", "thought 2", "thought 3"]


@requirement("REQ-915-023")
def test_thoughts_go_back_byte_for_byte_while_nothing_before_them_changed() -> None:
    transcript = thinking_session().rendered()
    assert numbers_of(transcript) == ALL
    assert [thought.seal.payload for thought in thoughts_of(transcript) if thought.seal] == [
        f"SEALED {number} ✓==" for number in (1, 2, 3)
    ]
    assert transcript.repairs == ()
    assert list(complaints(transcript, BOUND)) == []


@requirement("REQ-915-023")
def test_going_on_from_an_earlier_render_keeps_them_too() -> None:
    session = thinking_session()
    previous = session.rendered()
    for number in range(4, 8):
        made_under = previous.fingerprint
        session.says(fold(reply(number), BOUND.target, made_under=made_under).message, user("more"))
        previous = render(session.conversation, None, BOUND, previous=previous)
        fresh = session.rendered()
        assert previous.steps == fresh.steps
        assert previous.fingerprint == fresh.fingerprint
        assert numbers_of(previous)[-1] == f"thought {number}"
        assert len(numbers_of(previous)) == number


def test_going_on_drops_earlier_thoughts_when_a_later_seal_turns_out_broken() -> None:
    session = thinking_session()
    previous = session.rendered()
    stray = model(Reasoning("stray", Seal(BOUND.target, "SEALED stray", made_under="elsewhere")), "said")
    session.says(stray, user("more"))
    continued = render(session.conversation, None, BOUND, previous=previous)
    assert numbers_of(continued) == []
    assert continued.steps == session.rendered().steps


def edited(conversation: Conversation, index: int, message: Message) -> Conversation:
    messages = list(conversation.messages)
    messages[index] = message
    return structs.replace(conversation, messages=tuple(messages))


def test_an_edit_drops_all_thoughts_made_after_it_and_those_before_with_them() -> None:
    session = thinking_session()
    session.conversation = edited(session.conversation, 4, user("question 2, put differently"))
    transcript = session.rendered()
    assert numbers_of(transcript) == []
    assert kinds_of(transcript).count("reasoning_dropped") == 3
    assert {repair.decision for repair in transcript.repairs} == {"its seal was made under another prefix"}
    assert "said 3" in all_text(transcript)


def test_after_an_edit_new_thoughts_are_kept_and_only_the_front_is_dropped() -> None:
    session = thinking_session()
    session.conversation = edited(session.conversation, 0, user("question 1, edited"))
    session.is_answered().says(user("question 4"))
    assert numbers_of(session.rendered()) == ["thought 4"]


def test_what_is_edited_after_the_last_thought_drops_nothing() -> None:
    session = thinking_session()
    session.conversation = edited(session.conversation, -1, user("question 3, edited"))
    assert numbers_of(session.rendered()) == ALL


def test_compaction_drops_the_thoughts_whose_prefix_is_gone() -> None:
    session = thinking_session()
    rest = session.conversation.messages[4:]
    session.conversation = structs.replace(session.conversation, messages=(user("summary"), *rest))
    assert numbers_of(session.rendered()) == []
    session.is_answered().says(user("question 4"))
    assert numbers_of(session.rendered()) == ["thought 4"]


def test_a_result_that_arrives_late_changes_the_prefix() -> None:
    session = Session().says(user("question 1")).is_answered(call=True)
    session.is_answered().says(user("question 2"))
    assert numbers_of(session.rendered()) == ["thought 1", "thought 2"]
    session.says(tool(ToolResult("c0", "read", "late")))
    assert numbers_of(session.rendered()) == []


def test_another_system_prompt_drops_them_and_the_old_one_restores_them() -> None:
    session = thinking_session()
    other = structs.replace(session.conversation, system="Be long.")
    assert numbers_of(render(other, None, BOUND)) == []
    assert numbers_of(session.rendered()) == ALL


def test_other_tools_drop_them() -> None:
    session = thinking_session(policy=Policy(settings_fingerprint="tools: read"))
    assert numbers_of(session.rendered()) == ALL
    assert numbers_of(session.rendered(policy=Policy(settings_fingerprint="tools: read, write"))) == []


def test_a_seal_that_does_not_know_its_prefix_counts_until_something_before_it_was_repaired() -> None:
    thought = Reasoning("thought", Seal(BOUND.target, "seal"))
    clean = (user("a"), model(thought, "said", origin=BOUND.target), user("b"))
    open_call = (model(ToolCall("c0", "read")), user("c"))
    assert numbers_of(render(Conversation(clean), None, BOUND)) == ["thought"]
    assert numbers_of(render(Conversation((*clean, *open_call)), None, BOUND)) == ["thought"]
    assert numbers_of(render(Conversation((user("z"), *open_call, *clean)), None, BOUND)) == []
    out_of_place = (*clean, tool(ToolResult("gone", "read", "x")))
    assert numbers_of(render(Conversation(out_of_place), None, BOUND)) == []


SIGNED = Reasoning("thought", Seal(BOUND.target, "SEALED"))


def signed_after(call: ToolCall, result: ToolResult) -> tuple[Message, ...]:
    """A call of the target and its result, then a signed thought that does not record its prefix."""
    return (
        user("a"),
        model(call, origin=BOUND.target),
        tool(result),
        model(SIGNED, "b", origin=BOUND.target),
        user("c"),
    )


def test_a_seal_that_does_not_know_its_prefix_is_dropped_behind_a_call_that_gets_another_id() -> None:
    known = signed_after(ToolCall("c0", "read", native_id="toolu_1"), ToolResult("c0", "read", "x"))
    assert thoughts_of(render(Conversation(known), None, BOUND)) == [SIGNED]
    other = signed_after(ToolCall("c0", "read"), ToolResult("c0", "read", "x"))
    assert thoughts_of(render(Conversation(other), None, BOUND)) == []
    assert thoughts_of(render(Conversation(other), None, UNBOUND)) == [SIGNED]


def test_a_seal_that_does_not_know_its_prefix_is_dropped_behind_what_adopting_repaired() -> None:
    call, result = ToolCall("", "read", native_id="toolu_1"), ToolResult("", "read", "x", native_id="toolu_1")
    for moved in ((tool(call, result),), (tool(result), model(call, origin=BOUND.target))):
        history = [user("a"), *moved, model(SIGNED, "b", origin=BOUND.target), user("c")]
        adopted = adopt(history).conversation
        assert "reasoning_dropped" in kinds_of(render(adopted, None, BOUND))
        assert numbers_of(render(adopted, None, UNBOUND)) == ["thought"]
    assert thoughts_of(render(adopt(signed_after(call, result)).conversation, None, BOUND)) == [SIGNED]


def test_a_thought_with_nothing_behind_it_is_dropped_where_the_target_refuses_it() -> None:
    ends = model(SIGNED, "b", SIGNED, origin=BOUND.target)
    transcript = render(Conversation((user("a"), ends, user("c"))), None, BOUND)
    assert thoughts_of(transcript) == []
    assert [repair.decision for repair in transcript.repairs] == ["nothing follows it"]
    # Thoughts may be dropped from the front only, so the one before goes with it.
    before = model(SIGNED, "b", origin=BOUND.target)
    assert (
        thoughts_of(render(Conversation((user("a"), before, user("d"), ends, user("c"))), None, BOUND)) == []
    )
    lenient = structs.replace(BOUND, reasoning=structs.replace(BOUND.reasoning, last=True))
    assert len(thoughts_of(render(Conversation((user("a"), ends, user("c"))), None, lenient))) == 2
    call = ToolCall("c0", "read", native_id="toolu_1")
    calls = model("b", call, SIGNED, origin=BOUND.target)
    strict = structs.replace(UNBOUND, reasoning=structs.replace(UNBOUND.reasoning, last=False))
    (shown,) = render(Conversation((user("a"), calls)), None, strict).steps[1:]
    assert [type(block).__name__ for block in shown.blocks] == ["Text", "Reasoning", "AnsweredCall"]


def test_where_seals_are_not_bound_they_survive_every_edit() -> None:
    session = thinking_session(UNBOUND)
    session.conversation = edited(session.conversation, 0, user("edited"))
    assert numbers_of(session.rendered()) == ALL
    assert session.rendered().fingerprint == ""


def test_leaving_for_another_provider_and_coming_back_restores_them() -> None:
    session = thinking_session()
    away = session.rendered(ELSEWHERE)
    assert "SEALED" not in all_text(away)
    assert "thought" not in all_text(away)
    session.says(model("said elsewhere", origin=ELSEWHERE.target), user("back again"))
    back = session.rendered()
    assert numbers_of(back) == ALL
    assert "said elsewhere" in all_text(back)


@pytest.mark.parametrize(
    "target",
    [
        structs.replace(BOUND.target, model="model-2"),
        structs.replace(BOUND.target, endpoint="https://other.invalid"),
        structs.replace(BOUND.target, provider="reseller"),
    ],
    ids=["model", "endpoint", "provider"],
)
@pytest.mark.parametrize("rules", [BOUND, UNBOUND], ids=["bound", "unbound"])
def test_another_model_endpoint_or_provider_gets_none_of_them(rules: Rules, target: Origin) -> None:
    session = thinking_session(rules)
    transcript = session.rendered(structs.replace(rules, target=target))
    assert numbers_of(transcript) == []
    assert "SEALED" not in all_text(transcript)
    assert kinds_of(transcript).count("reasoning_dropped") == 3
    assert numbers_of(session.rendered()) == ALL


@requirement("REQ-915-024")
def test_all_but_last_keeps_the_last_reply_that_thinks() -> None:
    transcript = thinking_session().rendered(policy=Policy(strip_reasoning="all_but_last"))
    assert numbers_of(transcript) == ["thought 3"]
    assert kinds_of(transcript).count("reasoning_dropped") == 2


@requirement("REQ-915-024")
@pytest.mark.parametrize("policy", [Policy(include_reasoning=False), Policy(strip_reasoning="all")])
def test_excluded_thoughts_are_nowhere_and_come_back_when_they_are_included(policy: Policy) -> None:
    session = thinking_session()
    excluded = session.rendered(policy=policy)
    assert "thought" not in all_text(excluded)
    assert "SEALED" not in all_text(excluded)
    assert numbers_of(session.rendered()) == ALL


def test_a_thought_that_is_redacted_goes_back_without_a_word_and_sealed() -> None:
    redacted = Reasoning("", Seal(BOUND.target, "ENCRYPTED", "redacted"))
    transcript = render(Conversation((user("a"), model(redacted, "b"), user("c"))), None, BOUND)
    assert thoughts_of(transcript) == [redacted]


def test_a_seal_on_text_or_call_goes_only_to_its_origin() -> None:
    gemini = TARGETS["gemini"]
    seal = Seal(gemini.target, "THOUGHT-SIGNATURE", "thought")
    conversation = Conversation(
        (
            user("a"),
            model(Text("", seal), ToolCall("c0", "read", {}, seal=seal), origin=gemini.target),
            tool(ToolResult("c0", "read", "x")),
        )
    )
    own = render(conversation, None, gemini)
    assert all_text(own).count("THOUGHT-SIGNATURE") == 2
    foreign = render(conversation, None, BOUND)
    assert "THOUGHT-SIGNATURE" not in all_text(foreign)
    assert kinds_of(foreign).count("seal_dropped") == 2


@given(
    edit=st.integers(0, 6),
    turns=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_thoughts_that_remain_are_always_the_last_ones(edit: int, turns: list[bool]) -> None:
    session = Session().says(user("question"))
    for number, with_call in enumerate(turns):
        session.is_answered(call=with_call)
        if with_call:
            made = session.conversation.messages[-1].calls[0].id
            session.says(tool(ToolResult(made, "read", f"content {number}")))
        else:
            session.says(user(f"question {number}"))
    everything = numbers_of(session.rendered())
    assert everything == [f"thought {number + 1}" for number in range(len(turns))]
    index = min(edit, len(session.conversation.messages) - 1)
    if session.conversation.messages[index].speaker == "user":
        session.conversation = edited(session.conversation, index, user("edited"))
    left = numbers_of(session.rendered())
    assert left == everything[len(everything) - len(left) :]
