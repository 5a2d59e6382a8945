"""One request per rule that breaks it and nothing else, refused with the provider's own words."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.anthropic.breaking import NO_PREFILL, UNANSWERED, answered, thinks, without
from emulators.anthropic.cases_of_conversations import CONVERSATION_CASES, STRICT_CASES
from emulators.anthropic.cases_of_requests import REQUEST_CASES
from emulators.anthropic.requests import (
    BINDING,
    NEW,
    OLD,
    PIXEL,
    TOOLS,
    ask,
    assistant,
    call,
    context,
    image,
    refusals,
    result,
    system,
    text,
    user,
)
from segue.emulators.anthropic.checks import count_complaints
from segue.emulators.rules import first_enforced

CASES = [*REQUEST_CASES, *CONVERSATION_CASES]


@pytest.mark.parametrize(("rule", "body", "message", "extra"), CASES)
def test_a_broken_rule_is_refused_in_the_providers_words(
    rule: str, body: Any, message: str, extra: dict[str, Any]
) -> None:
    found = refusals(body, **extra)
    assert (found[0].rule, found[0].message) == (rule, message)
    assert found[0].status == (404 if message.startswith("model: c") else 400)


@pytest.mark.parametrize(("rule", "body", "message", "extra"), CASES)
def test_each_of_these_requests_breaks_only_one_rule(
    rule: str, body: Any, message: str, extra: dict[str, Any]
) -> None:
    assert {refusal.rule for refusal in refusals(body, **extra)} == {rule}


@pytest.mark.parametrize(("rule", "body", "message", "extra"), STRICT_CASES)
def test_what_is_less_certain_is_refused_only_when_strict(
    rule: str, body: Any, message: str, extra: dict[str, Any]
) -> None:
    assert (rule, message) not in [(refusal.rule, refusal.message) for refusal in refusals(body)]
    assert (rule, message) in [(refusal.rule, refusal.message) for refusal in refusals(body, strict=True)]


@pytest.mark.rule("ANT-85")
def test_thinking_takes_no_cache_mark() -> None:
    marked = {"type": "thinking", "thinking": "", "signature": "x", "cache_control": {"type": "ephemeral"}}
    found = refusals(ask(user(), assistant(marked, text()), user()))
    assert found[0].message == "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"


@pytest.mark.rule("ANT-10", "ANT-44")
def test_old_habits_of_the_api_are_enforced_when_asked_for_by_id() -> None:
    body = ask(assistant(), user(), user(), assistant(call()), user(result()))
    assert refusals(body, strict=True) == []
    found = [refusal.message for refusal in refusals(body, extra_rules=frozenset({"ANT-10", "ANT-44"}))]
    assert found == [
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        'messages: first message must use the "user" role',
        'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
    ]


@pytest.mark.rule("ANT-27")
def test_text_behind_a_call_with_thinking_is_called_a_prefill_by_new_models() -> None:
    body = answered({"type": "thinking", "thinking": "", "signature": "x"}, call(), text(), model=NEW)
    assert ("ANT-27", NO_PREFILL) in [(refusal.rule, refusal.message) for refusal in refusals(body)]


@pytest.mark.rule("ANT-31", "ANT-96")
def test_counting_tokens_pairs_calls_but_needs_no_limit() -> None:
    counted = without(ask(user(), assistant(call()), user(), **TOOLS), "max_tokens")
    circumstances = context(OLD)
    refusal = first_enforced(count_complaints(counted, circumstances), circumstances)
    assert refusal is not None
    assert refusal.message == UNANSWERED
    assert (
        first_enforced(count_complaints(without(ask(), "max_tokens"), circumstances), circumstances) is None
    )


VALID = {
    "consecutive-messages-of-one-role": ask(user(), user(), assistant(), assistant(), user()),
    "a-leading-assistant-message": ask(assistant(), user()),
    "results-in-any-order": answered(
        call("toolu_a"), call("toolu_b"), results=[result("toolu_b"), result("toolu_a"), text()]
    ),
    "results-split-over-messages": ask(
        user(), assistant(call("a"), call("b")), user(result("a")), user(result("b")), **TOOLS
    ),
    "a-result-without-content": answered(results=[{"type": "tool_result", "tool_use_id": "toolu_a"}]),
    "a-call-without-arguments": answered(call(input={})),
    "blanks-beside-words": ask(user(text(" "), text("real"))),
    "a-prefill-on-an-old-model": ask(user(), assistant(text("The answer is"))),
    "a-system-message-in-the-middle": ask(user(), system(), assistant(), user(), model=BINDING),
    "an-empty-final-assistant-message": ask(user(), {"role": "assistant", "content": ""}),
    "a-file-with-its-beta": ask(user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
    "a-directive-without-words": ask(
        user(),
        {"role": "system", "content": [], "output_config": {"effort": "low"}},
        model=BINDING,
    ),
    "a-paused-server-tool": ask(
        user(),
        assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        model=NEW,
    ),
    "a-picture-in-a-result": answered(results=[result(content=[text(), image(PIXEL)])]),
    "no-thinking-in-an-adaptive-tool-loop": answered(model=NEW, **thinks("adaptive")),
}


@pytest.mark.rule("ANT-21")
@pytest.mark.parametrize("body", VALID.values(), ids=VALID.keys())
def test_a_valid_request_is_accepted(body: dict[str, Any]) -> None:
    assert refusals(body, strict=True) == []


@pytest.mark.parametrize(
    "body", [None, [], "x", 3, {}, {"messages": 3}, {"messages": [{"role": {}, "content": 5}]}]
)
def test_no_body_is_too_strange_to_be_refused(body: Any) -> None:
    assert refusals(body)
