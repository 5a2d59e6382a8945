"""The whole render: what it refuses, how it goes on, and that histories survive every target."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from laws.digest import all_text, on_the_wire
from laws.legality import complaints
from segue.conversation.blocks import (
    Media,
    Origin,
    Reason,
    Reasoning,
    Seal,
    Text,
    ToolCall,
    ToolResult,
    is_real,
)
from segue.conversation.document import decode_document, encode_document
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.errors import TranscriptError
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.blocks.value_text import text_of
from segue.transcript.composer import Composer
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.render import _as_a_whole, render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, UserStep
from strategies.examples import AT_LEAST_100
from strategies.histories import CYCLE, Told, conversations, messages, whole_conversations
from strategies.targets import TARGETS, Replay, for_every_target
from transcript.readers import batches_of, calls_of, completions_of, every_target, kinds_of, said

requirement = pytest.mark.requirement
CHAT = TARGETS["openai_chat"]


@every_target
def test_a_conversation_without_messages_is_refused(rules: Rules) -> None:
    with pytest.raises(TranscriptError) as refused:
        render(Conversation(system="sk-secret"), None, rules)
    error = refused.value
    assert (error.code, error.path, error.remedy) == ("empty", "messages", "fix")
    assert "user message" in error.hint
    assert "sk-secret" not in str(error)


# System prompts


def test_the_system_prompt_has_its_place_or_goes_before_the_first_user_message() -> None:
    apart = said(user("a"), rules=CHAT, system="Be brief.")
    assert (apart.system, apart.repairs) == ("Be brief.", ())
    folding = structs.replace(CHAT, system="first_user")
    folded = said(model("hello"), user("a"), rules=folding, system="Be \ud800 brief.")
    assert folded.steps == (ModelStep((Text("hello"),)), UserStep((Text("Be \ufffd brief."), Text("a"))))
    assert (folded.system, kinds_of(folded)) == ("", ["system_folded"])
    alone = said(model("hello"), rules=folding, system="Be brief.")
    assert alone.steps[0] == UserStep((Text("Be brief."),))
    assert said(user("a"), rules=folding).repairs == ()


@every_target
def test_a_blank_system_prompt_is_left_out_where_blanks_are_refused(rules: Rules) -> None:
    transcript = said(user("a"), rules=rules, system=" \n")
    assert transcript.system == (" \n" if rules.blank_text else "")
    assert kinds_of(transcript) == ([] if rules.blank_text else ["blank_text"])


# Going on from an earlier render

CALL = ToolCall("c0", "read", CYCLE)
STARTED = Conversation((user("a"), model(CALL), tool(ToolResult("c0", "read", "1")), user("b")), minted=1)


@requirement("REQ-915-010", "REQ-915-038")
@every_target
def test_a_history_that_cannot_be_compared_is_rendered_anew(rules: Rules) -> None:
    previous = render(STARTED, None, rules)
    reloaded = copy.deepcopy(STARTED).append(user("c"))
    assert render(reloaded, None, rules, previous=previous).steps == render(reloaded, None, rules).steps


@requirement("REQ-915-010")
@pytest.mark.parametrize(
    "changed",
    [
        structs.replace(STARTED, system="other"),
        structs.replace(STARTED, messages=(user("z"), *STARTED.messages[1:])),
        structs.replace(STARTED, messages=STARTED.messages[:1]),
    ],
    ids=["system", "first message", "shorter"],
)
def test_an_earlier_render_of_something_else_changes_nothing(changed: Conversation) -> None:
    previous = render(STARTED, None, CHAT)
    assert render(changed, None, CHAT, previous=previous).steps == render(changed, None, CHAT).steps


@requirement("REQ-915-010", "REQ-915-046")
def test_an_earlier_render_with_another_ledger_policy_or_target_changes_nothing() -> None:
    ledger = Ledger([Interaction(CALL)])
    previous = render(STARTED, ledger, CHAT)
    longer = STARTED.append(user("c"))
    for book in (None, Ledger([Interaction(CALL, ToolResult("c0", "read", "2"))]), ledger):
        assert render(longer, book, CHAT, previous=previous).steps == render(longer, book, CHAT).steps
    ledger.settle(ToolResult("c0", "read", "of the ledger"))
    assert completions_of(render(longer, ledger, CHAT, previous=previous)) == {"c0": "of the ledger"}
    policy = Policy(tool_names=("write",))
    assert render(longer, ledger, CHAT, policy, previous=previous).names == {"write": "write", "read": "read"}
    other = TARGETS["mistral"]
    assert render(longer, ledger, other, previous=previous).steps == render(longer, ledger, other).steps


@requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_a_ledger_that_fills_up_on_the_way_changes_no_more_than_a_fresh_render_would(
    rules: Rules, data: Replay
) -> None:
    told: Told = data.draw(whole_conversations(rules.target))
    known = rebuild(told.conversation)
    ledger = Ledger()
    previous = None
    late = data.draw(st.sets(st.sampled_from(sorted(told.outputs)))) if told.outputs else set()
    conversation = Conversation(system=told.conversation.system)
    for message in told.conversation.messages:
        kept = tuple(b for b in message.blocks if not isinstance(b, ToolResult) or b.call_id not in late)
        conversation = conversation.append(structs.replace(message, blocks=kept))
        for call in message.calls:
            ledger.schedule(call)
        for block in message.blocks:
            if isinstance(block, ToolResult):
                ledger.settle(block)
        if not message.calls:
            continued, fresh = (render(conversation, ledger, rules, previous=one) for one in (previous, None))
            assert (continued.steps, continued.repairs) == (fresh.steps, fresh.repairs)
            previous = continued
    assert completions_of(render(conversation, ledger, rules)) == told.outputs
    assert dict(ledger) == dict(known)


# Any history, once more, from angles the laws do not take

sizes = st.integers(0, 6)
few_ids = st.sampled_from(["", "a", "b"])
placeholders: st.SearchStrategy[Reason | None] = st.sampled_from([None, None, "interrupted"])
few_names = st.sampled_from(["", "read", "write"])


@st.composite
def crowded(draw: st.DrawFn) -> Conversation:
    """Large batches of calls and results that share a few ids, with anything in between."""
    made: list[Message] = [user("start")]
    output = 0
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["calls", "results", "results", "user", "note", "both"])):
            case "calls":
                made.append(model(*(ToolCall(draw(few_ids), draw(few_names)) for _ in range(draw(sizes)))))
            case "results" | "both" as kind:
                blocks: list[ToolCall | ToolResult] = []
                for _ in range(draw(sizes)):
                    output += 1
                    if kind == "both" and draw(st.booleans()):
                        blocks.append(ToolCall(draw(few_ids), draw(few_names)))
                    reason = draw(placeholders)
                    text = None if reason else f"output {output}."
                    blocks.append(ToolResult(draw(few_ids), draw(few_names), text, reason=reason))
                made.append(Message(draw(st.sampled_from(["tool", "user", "model"])), tuple(blocks)))
            case "user":
                made.append(user("hm", Media("image", "image/png", "eA==")))
            case _:
                made.append(Message("user", (Text("note"),), instruction=True))
    return Conversation(tuple(made))


def real_outputs(conversation: Conversation) -> set[str]:
    return {
        text_of(block.output)
        for message in conversation.messages
        for block in message.blocks
        if isinstance(block, ToolResult) and is_real(block)
    }


@requirement("REQ-915-005", "REQ-915-006", "REQ-915-009", "REQ-915-022")
@given(data=st.data())
@for_every_target
def test_crowded_histories_are_legal_and_every_output_is_sent(rules: Rules, data: Replay) -> None:
    conversation = data.draw(crowded())
    transcript = render(conversation, None, rules)
    assert list(complaints(transcript, rules)) == []
    for each in (transcript, render(adopt(conversation.messages).conversation, None, rules)):
        sent = "\n".join(call.completion.text for call in calls_of(each))
        assert [output for output in real_outputs(conversation) if output not in sent] == []


@requirement("REQ-915-010")
@given(data=st.data())
def test_a_history_heard_in_stretches_pairs_as_one_heard_as_a_whole(data: st.DataObject) -> None:
    conversation = data.draw(crowded())
    assert (
        render(conversation, None, CHAT).steps
        == _as_a_whole(conversation, Composer(CHAT, DEFAULT, None)).steps
    )


@requirement("REQ-915-046")
@given(data=st.data())
def test_crowded_histories_render_the_same_with_a_ledger_rebuilt_from_them(data: st.DataObject) -> None:
    conversation = data.draw(crowded())
    for rules in (CHAT, TARGETS["mistral"]):
        assert (
            render(conversation, rebuild(conversation), rules).steps
            == render(conversation, None, rules).steps
        )


@AT_LEAST_100
@requirement("Property 12")
@given(data=st.data())
@for_every_target
def test_a_message_a_target_can_say_comes_back_as_it_went(rules: Rules, data: Replay) -> None:
    told: Told = data.draw(whole_conversations(rules.target))
    once = render(told.conversation, None, rules)
    back = adopt(once.conversation().messages, system=once.system).conversation
    assert [message.text for message in back.messages if message.text] == [
        message.text for message in once.conversation().messages if message.text
    ]
    assert completions_of(render(back, None, rules)) == told.outputs
    assert [call.name for message in back.messages for call in message.calls] == [
        call.name for message in told.conversation.messages for call in message.calls
    ]


@requirement("REQ-915-001", "REQ-915-004", "REQ-915-014")
@given(data=st.data())
def test_a_tour_over_all_targets_loses_nothing_and_changes_no_identity(data: st.DataObject) -> None:
    told = data.draw(whole_conversations())
    tour = data.draw(st.permutations(list(TARGETS.values())))
    conversation = told.conversation
    for rules in tour:
        transcript = render(conversation, None, rules)
        assert list(complaints(transcript, rules)) == []
        assert completions_of(transcript) == told.outputs
        assert all(text in all_text(transcript) for text in told.texts)
    assert conversation == told.conversation


@requirement("REQ-915-023", "REQ-915-025")
@given(data=st.data())
def test_policies_and_addresses_never_make_a_transcript_illegal(data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from(list(TARGETS.values())))
    policy = Policy(
        include_reasoning=data.draw(st.booleans()),
        strip_reasoning=data.draw(st.sampled_from(["none", "all_but_last", "all"])),
        tool_names=data.draw(st.sampled_from([(), ("read", "read file"), ("näme", "1st")])),
    )
    conversation = data.draw(conversations(rules))
    transcript = render(conversation, None, rules, policy)
    assert list(complaints(transcript, rules)) == []
    more = conversation.append(data.draw(messages(rules.target)))
    continued = render(more, None, rules, policy, previous=transcript)
    assert on_the_wire(continued) == on_the_wire(render(more, None, rules, policy))


def test_the_conversation_a_transcript_tells_is_what_the_target_would_give_back() -> None:
    seal = Seal(CHAT.target, "seal")
    transcript = said(
        user("a"),
        model("b", ToolCall("c0", "read", raw="{}", seal=seal), ToolCall("c1", "read", raw="{}")),
        tool(ToolResult("c0", "read", "1"), ToolResult("c1", "read", error="no")),
        Message("user", (Text("note"),), instruction=True),
        rules=CHAT,
        system="Be brief.",
    )
    assert transcript.conversation() == Conversation(
        (
            user("a"),
            model(
                "b",
                ToolCall("", "read", raw="{}", native_id="call_c0", seal=seal),
                ToolCall("", "read", raw="{}", native_id="call_c1"),
                origin=CHAT.target,
            ),
            tool(
                ToolResult("", "read", "1", complete=True, native_id="call_c0"),
                ToolResult("", "read", error="no", complete=True, native_id="call_c1"),
            ),
            Message("user", (Text("note"),), instruction=True),
        ),
        "Be brief.",
    )


def test_who_wrote_a_message_does_not_matter_to_what_is_said_of_it() -> None:
    def told(origin: Origin | None) -> object:
        return said(
            user("a"),
            model(Reasoning("t"), "b", ToolCall("c0", "read", native_id="x"), origin=origin),
            rules=TARGETS["mistral"],
        ).steps

    assert told(None) == told(Origin("gemini")) == told(CHAT.target)


@requirement("REQ-915-038")
@every_target
def test_numbers_too_long_to_be_written_break_nothing(rules: Rules) -> None:
    call = ToolCall("c0", "read", {"n": 10**5000})
    conversation = Conversation(
        (user("a"), model(call), tool(ToolResult("c0", "read", [10**5000])), user("b"))
    )
    (answered,) = calls_of(render(conversation, None, rules))
    assert answered.completion.text == f'["{10**5000:#x}"]'
    assert call.arguments == {"n": 10**5000}
    decode_document(encode_document(conversation))


@requirement("REQ-915-010", "REQ-915-023")
@pytest.mark.parametrize(
    "policy",
    [Policy(include_reasoning=False), Policy(strip_reasoning="all"), Policy(tool_names=("read file",))],
)
def test_a_render_that_continues_another_follows_its_own_policy(policy: Policy) -> None:
    rules = TARGETS["kimi"]
    thinking = model(Reasoning("thought"), "a", ToolCall("c0", "read"), origin=rules.target)
    conversation = Conversation((user("a"), thinking, tool(ToolResult("c0", "read", "x")), user("b")))
    previous = render(conversation, None, rules)
    longer = conversation.append(model("c", origin=rules.target), user("d"))
    fresh, other = render(longer, None, rules, policy), render(longer, None, rules)
    continued = render(longer, None, rules, policy, previous=previous)
    assert (continued.steps, continued.names) == (fresh.steps, fresh.names)
    assert (other.steps, other.names) != (fresh.steps, fresh.names)


@requirement("REQ-915-010", "REQ-915-040")
def test_a_render_that_continues_another_reports_again_which_thoughts_it_does_not_send() -> None:
    """Who forwards a request unless something is repaired would forward a thought that is refused."""
    rules = TARGETS["anthropic"]
    rules = structs.replace(rules, reasoning=structs.replace(rules.reasoning, bound=True))
    thinking = model(Reasoning("t", Seal(rules.target, "seal")), ToolCall("c0", "read"), origin=rules.target)
    conversation = Conversation(
        (
            user("a"),
            model(ToolCall("c0", "read")),
            tool(ToolResult("c0", "read", "x")),
            user("b"),
            thinking,
            tool(ToolResult("c0", "read", "y")),
            user("c"),
            model("d", origin=rules.target),
        )
    )
    transcript = render(conversation, None, rules)
    for words in ("e", "f", "g"):
        conversation = conversation.append(user(words), model("h", origin=rules.target))
        transcript = render(conversation, None, rules, previous=transcript)
        assert transcript.repairs == render(conversation, None, rules).repairs
        dropped = [repair for repair in transcript.repairs if repair.kind == "reasoning_dropped"]
        assert [(repair.path, repair.call_ids) for repair in dropped] == [("messages[4]", ("c0",))]


def test_replies_of_different_models_are_not_one_reply() -> None:
    rules = TARGETS["kimi"]
    other = Origin("openai_chat", "other", "", "other-1")
    own = model(Reasoning("own thought"), ToolCall("c0", "read", native_id="x"), origin=rules.target)
    for first, second in (
        (model("b", origin=other), own),
        (own, model(ToolCall("c1", "read"), origin=other)),
    ):
        (thought,) = [
            block.text
            for step in render(Conversation((user("a"), first, second)), None, rules).steps
            for block in step.blocks
            if isinstance(block, Reasoning) and block.text.strip()
        ]
        assert thought == "own thought"
    history = Conversation((user("a"), own, model(ToolCall("c1", "read"), origin=other)))
    assert batches_of(render(history, None, rules)) == [["c0"], ["c1"]]


@every_target
def test_a_render_that_continues_another_composes_only_what_is_new(rules: Rules) -> None:
    """Steps before the last stretch are the same objects, with a ledger and without; a fresh render makes its own."""
    turns = [
        (
            user("q"),
            model(ToolCall(f"c{n}", "read", {})),
            tool(ToolResult(f"c{n}", "read", "a", complete=True)),
            model("x"),
        )
        for n in range(2)
    ]
    first = Conversation((*turns[0], *turns[1], user("more")), "s")
    longer = first.append(model("y"), user("last"))
    for ledger in (None, rebuild(first)):
        before = render(first, ledger, rules)
        after = render(longer, ledger, rules, previous=before)
        kept = len(before.steps) - 1
        assert all(one is other for one, other in zip(before.steps[:kept], after.steps, strict=False))
        fresh = render(longer, ledger, rules)
        assert after.steps == fresh.steps
        assert not any(one is other for one, other in zip(fresh.steps, after.steps, strict=False))


@pytest.mark.parametrize("answered", [True, False])
def test_the_first_call_of_a_foreign_step_gets_the_seal_that_the_target_wants_and_that_is_reported(
    answered: bool,
) -> None:
    results = [ToolResult(f"c{n}", "read", "a", complete=True) for n in range(2 if answered else 1)]
    calls = model(ToolCall("c0", "read", {}), ToolCall("c1", "read", {}))
    shown = said(user("q"), calls, tool(*results), user("more"), rules=TARGETS["gemini"])
    first, second = calls_of(shown)
    assert first.seal is not None
    assert (first.seal.kind, second.seal) == ("thought", None)
    filled = [repair.call_ids for repair in shown.repairs if repair.kind == "call_seal_filled"]
    assert filled == [("c0",)]


def test_a_seal_of_another_maker_on_a_call_is_dropped_and_reported_with_the_call() -> None:
    seal = Seal(Origin("anthropic", "anthropic", "", "m"), "sealed")
    history = (
        user("q"),
        model(ToolCall("c0", "read", {}, seal=seal)),
        tool(ToolResult("c0", "read", "a", complete=True)),
    )
    for closed in (history, history[:2]):
        shown = said(*closed, user("more"), rules=CHAT)
        assert calls_of(shown)[0].seal is None
        dropped = [repair.call_ids for repair in shown.repairs if repair.kind == "seal_dropped"]
        assert dropped == [("c0",)]


def test_a_result_with_a_name_belongs_to_the_call_whose_name_was_lost() -> None:
    calls = model(ToolCall("", "", {"n": 1}, native_id="x"), ToolCall("", "other", {}, native_id="x"))
    results = tool(ToolResult("", "read", "mine", complete=True, native_id="x"))
    adopted = adopt((user("q"), calls, results, user("more"))).conversation
    first = adopted.messages[1].calls[0]
    found = [block.call_id for block in adopted.messages[2].blocks if type(block) is ToolResult]
    assert first.id in found


def test_a_reply_at_the_end_that_held_only_a_thought_bound_to_another_prefix_is_dropped() -> None:
    rules = TARGETS["anthropic"]
    origin = Origin("anthropic", "provider", "https://provider.invalid", "model-1")
    bound = structs.replace(
        rules.at(provider=origin.provider, endpoint=origin.endpoint, model=origin.model),
        reasoning=structs.replace(rules.reasoning, bound=True),
    )
    thought = Reasoning("", Seal(origin, "sealed"))
    for earlier in ((), (model(thought, "Yes."), user("more"))):
        shown = said(user("q"), *earlier, model(thought), rules=bound)
        assert not any(isinstance(block, Reasoning) for step in shown.steps for block in step.blocks)
        assert list(complaints(shown, bound)) == []
        assert "reasoning_dropped" in kinds_of(shown)
