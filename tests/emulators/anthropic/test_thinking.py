"""Thinking on replay: accepted as it was issued, refused when altered, moved, torn, foreign or stale."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from emulators.anthropic.requests import (
    BINDING,
    OLD,
    TOOL,
    TOOLS,
    ask,
    context,
    refusals,
    result,
    system,
    text,
    user,
)
from segue.emulators.anthropic import replies, thinking
from segue.emulators.anthropic.checks import complaints
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.rules import Context

MANUAL: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
SHOWN: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
INVALID = "Invalid `signature` in `thinking` block"


def reply_to(body: dict[str, Any], *pieces: Piece, **circumstances: Any) -> dict[str, Any]:
    """What the emulated model answers, as the message that a client appends."""
    asked = replace(context(body["model"]), **{"reply_id": f"r{len(body['messages'])}", **circumstances})
    answer = replies.whole(Reply(pieces=pieces), body, asked)
    return {"role": "assistant", "content": answer["content"]}


def continued(body: dict[str, Any], *messages: dict[str, Any]) -> dict[str, Any]:
    return {**body, "messages": [*body["messages"], *messages]}


def loop(model: str = OLD, **settings: Any) -> dict[str, Any]:
    """A question, thinking and a call, the result, thinking and an answer, another question."""
    body = ask(user(), model=model, **TOOLS, **(MANUAL if model == OLD else settings))
    first = reply_to(
        body, Think("I need the weather."), Say("One moment."), Call("get_weather", {"city": "Paris"})
    )
    body = continued(body, first, user(result(first["content"][-1]["id"])))
    second = reply_to(body, Think("18 degrees is mild."), Say("It is mild."))
    return continued(body, second, user(text("Thanks")))


def messages(body: dict[str, Any], **circumstances: Any) -> list[str]:
    return [refusal.message for refusal in refusals(body, **circumstances)]


@pytest.mark.rule("ANT-51", "ANT-59")
@pytest.mark.parametrize(("model", "settings"), [(OLD, {}), (BINDING, SHOWN), (BINDING, {})])
def test_what_the_model_said_is_accepted_when_it_is_sent_back(model: str, settings: dict[str, Any]) -> None:
    assert messages(loop(model, **settings), strict=True) == []


@pytest.mark.rule("ANT-51")
def test_thinking_that_is_not_shown_has_an_empty_text_and_a_good_signature() -> None:
    body = loop(BINDING)
    block = body["messages"][1]["content"][0]
    assert (block["thinking"], bool(block["signature"])) == ("", True)
    block["thinking"] = "text in an omitted block is ignored"
    assert messages(body) == []


@pytest.mark.rule("ANT-51", "ANT-57")
def test_the_rulebooks_transcript_is_accepted_with_signatures_of_our_own() -> None:
    body = ask(
        user(text("Weather in Paris and Rome?")),
        model=BINDING,
        stream=True,
        tool_choice={"type": "auto"},
        system=[text("You are terse.", cache_control={"type": "ephemeral"})],
        **TOOLS,
        **SHOWN,
    )
    calls = (Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
    first = reply_to(body, Think("Need two lookups."), Say("Checking both."), *calls)
    ids = [block["id"] for block in first["content"][2:]]
    results = [
        result(ids[0], '{"c":18}'),
        result(ids[1], "timeout contacting weather service", is_error=True),
    ]
    body = continued(body, first, user(*results))
    second = reply_to(body, Think("One is missing."), Say("Paris 18C; Rome unavailable."))
    body = continued(body, second, user(text("Thanks. Tomorrow?", cache_control={"type": "ephemeral"})))
    assert messages(body, strict=True) == []


@pytest.mark.rule("ANT-54")
def test_the_latest_thinking_may_not_be_rewritten() -> None:
    body = loop()
    body["messages"][3]["content"][0]["thinking"] = "Something else."
    assert messages(body)[0] == f"messages.3.content.0: {thinking.MODIFIED}"


@pytest.mark.rule("ANT-55")
def test_earlier_thinking_that_was_rewritten_has_no_valid_signature() -> None:
    body = loop()
    body["messages"][1]["content"][0]["thinking"] = "Something else."
    assert messages(body) == [f"messages.1.content.0: {INVALID}"]


def interleaved() -> dict[str, Any]:
    body = ask(user(), **MANUAL)
    answer = reply_to(body, Think("One."), Say("First."), Think("Two."), Say("Second."))
    return continued(body, answer, user())


@pytest.mark.rule("ANT-54")
@pytest.mark.parametrize(
    "kept",
    [(1, 2, 3), (0, 1, 3), (2, 3, 0, 1), (0, 2, 3), (2, 1, 0, 3)],
    ids=["first-removed", "last-removed", "swapped-with-text", "text-removed", "swapped"],
)
def test_the_thinking_of_the_latest_message_stays_whole_and_in_order(kept: tuple[int, ...]) -> None:
    body = interleaved()
    assert messages(body) == []
    content = body["messages"][1]["content"]
    body["messages"][1]["content"] = [content[place] for place in kept]
    assert messages(body)[0].endswith(thinking.MODIFIED)


@pytest.mark.rule("ANT-54")
def test_two_assistant_turns_may_not_be_merged_into_one() -> None:
    body = ask(user(), **MANUAL)
    first = reply_to(body, Think("One."), Say("First."))
    body = continued(body, first, user())
    second = reply_to(body, Think("Two."), Say("Second."))
    merged = {"role": "assistant", "content": first["content"] + second["content"]}
    assert messages(continued(ask(user(), **MANUAL), merged, user()))[0].endswith(thinking.MODIFIED)


@pytest.mark.rule("ANT-55")
@pytest.mark.parametrize("whose", [{"platform": "bedrock"}, {"account": "another"}, {"secret": b"foreign"}])
def test_a_signature_of_another_platform_account_or_maker_is_refused(whose: dict[str, Any]) -> None:
    body = ask(user(), **MANUAL)
    answer = reply_to(body, Think("Hm."), Say("Yes."), **whose)
    assert messages(continued(body, answer, user())) == [f"messages.1.content.0: {INVALID}"]


@pytest.mark.rule("ANT-55")
def test_a_signature_that_was_cut_is_refused() -> None:
    body = loop()
    block = body["messages"][1]["content"][0]
    block["signature"] = block["signature"][:-8]
    assert messages(body) == [f"messages.1.content.0: {INVALID}"]


@pytest.mark.rule("ANT-58")
def test_another_models_thinking_is_ignored() -> None:
    body = loop(BINDING)
    assert messages({**body, "model": "claude-opus-5"}) == []
    assert messages({**loop("claude-opus-5"), "model": BINDING}) == []


@pytest.mark.rule("ANT-52")
def test_a_tool_loop_may_drop_thinking_in_adaptive_mode_only() -> None:
    for model, expected in [(OLD, 1), (BINDING, 0)]:
        body = loop(model)
        body["messages"] = body["messages"][:3]
        del body["messages"][1]["content"][0]
        found = messages(body)
        assert len(found) == expected
        assert all("Expected `thinking` or `redacted_thinking`, but found `text`." in one for one in found)


def changed(change: str) -> dict[str, Any]:
    body = deepcopy(loop(BINDING))
    match change:
        case "system":
            body["system"] = "You are somebody else."
        case "tools":
            body["tools"] = [{**TOOL, "description": "Now different"}]
        case "user":
            body["messages"][0] = user(text("Another question"))
        case "result":
            body["messages"][2]["content"][0]["content"] = "trimmed"
    return body


@pytest.mark.rule("ANT-57")
@pytest.mark.parametrize(
    ("change", "diagnosis"),
    [
        ("system", " The `system` prompt differs from the one this block was created with."),
        ("tools", " The `tools` list differs from the one this block was created with."),
        ("user", ""),
        ("result", ""),
    ],
)
def test_a_block_is_bound_to_all_that_came_before_it(change: str, diagnosis: str) -> None:
    found = messages(changed(change))
    assert found
    assert all(one.endswith(f"{thinking.BOUND}{diagnosis}") for one in found)
    assert messages({**changed(change), "model": "claude-opus-5"}) == []


@pytest.mark.rule("ANT-57")
def test_a_block_misses_the_thinking_that_preceded_it() -> None:
    body = loop(BINDING)
    third = reply_to(body, Think("And now."), Say("Welcome."))
    body = continued(body, third, user())
    assert messages(body) == []
    del body["messages"][3]["content"][0]
    diagnosis = (
        " The `thinking` block that preceded this one when it was created is missing from this request."
    )
    assert messages(body) == [f"messages.5.content.0: {thinking.BOUND}{diagnosis}"]


@pytest.mark.rule("ANT-57")
def test_thinking_may_be_removed_from_the_front_or_altogether() -> None:
    body = loop(BINDING)
    del body["messages"][1]["content"][0]
    assert messages(body) == []
    del body["messages"][3]["content"][0]
    assert messages(body) == []


@pytest.mark.rule("ANT-57")
def test_cache_marks_and_deferred_tools_are_no_part_of_the_bond() -> None:
    body = loop(BINDING)
    body["messages"][0]["content"] = [text("hi", cache_control={"type": "ephemeral"})]
    body["tools"] = [
        {**TOOL, "cache_control": {"type": "ephemeral"}},
        {**TOOL, "name": "later", "defer_loading": True},
    ]
    assert messages(body) == []


@pytest.mark.rule("ANT-57")
def test_a_mismatch_is_dropped_on_request_with_the_beta() -> None:
    body = changed("system")
    body["thinking"] = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert messages(body) != []
    assert messages(body, headers={"anthropic-beta": thinking.BINDING_BETA}) == []


@pytest.mark.rule("ANT-57")
def test_a_system_message_in_the_middle_counts_as_said() -> None:
    body = ask(user(), system(), model=BINDING)
    answer = reply_to(body, Think("Hm."), Say("Yes."))
    assert messages(continued(body, answer, user())) == []
    without = [body["messages"][0], answer, user()]
    assert messages({**body, "messages": without})[0].endswith(thinking.BOUND)


def test_recorded_conversations_are_judged_without_their_signatures() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "EqQB-from-elsewhere"}
    body = ask(user(), {"role": "assistant", "content": [block, text()]}, user())
    facts = {**context(OLD).facts, "trust_foreign_signatures": True}
    assert list(complaints(body, Context(model=OLD, facts=facts))) == []
