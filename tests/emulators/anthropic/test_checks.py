"""One request per rule that breaks it and nothing else, refused with the provider's own words."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.anthropic.requests import (
    BINDING,
    NEW,
    OLD,
    PIXEL,
    SCHEMA,
    TOOL,
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
from segue.emulators.anthropic import abilities, thinking
from segue.emulators.anthropic.checks import count_complaints
from segue.emulators.rules import first_enforced

UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use`"
    " block must have a corresponding `tool_result` block in the next message."
)
PATTERN = "String should match pattern '^[a-zA-Z0-9_-]+$'"
VERSION = {"anthropic-version": "2026-10-21"}
DIRECTIVE = "; the directive-only form (content: [] with output_config) is accepted at any position"
NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
ADVICE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
NOT_2020 = (
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    " (https://json-schema.org/draft/2020-12). Learn more about tool use at"
    " https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."
)
WIDE = "iVBORw0KGgoAAAANSUhEUgAACcQAAAABCAYAAAAfFcSJ"
"""The head of a PNG of 2500 pixels."""


def case(sentence: str, rule: str, body: Any, message: str, **extra: Any) -> Any:
    return pytest.param(
        rule, body, message, extra, marks=pytest.mark.rule(rule), id=sentence.replace(" ", "-")
    )


def without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


def tool(**changes: Any) -> dict[str, Any]:
    return {"tools": [{**TOOL, **changes}]}


def answered(*blocks: Any, results: Any = (result(),), **extra: Any) -> dict[str, Any]:
    return ask(user(), assistant(*blocks or (call(),)), user(*results), **{**TOOLS, **extra})


def thinks(kind: str, **extra: Any) -> dict[str, Any]:
    return {"thinking": {"type": kind, **extra}}


CASES = [
    # --- shape
    case("a missing limit", "ANT-05", without(ask(), "max_tokens"), "max_tokens: Field required"),
    case("a missing model", "ANT-04", without(ask(), "model"), "model: Field required"),
    case("an unknown key", "ANT-04", ask(n=2), "n: Extra inputs are not permitted"),
    case(
        "a name in a message",
        "ANT-04",
        ask({**user(), "name": "Ann"}),
        "messages.0.name: Extra inputs are not permitted",
    ),
    case(
        "a foreign key in a call",
        "ANT-04",
        answered(call(index=0)),
        "messages.1.content.0.tool_use.index: Extra inputs are not permitted",
    ),
    case(
        "a foreign key in a cache mark",
        "ANT-04",
        ask(system=[text(cache_control={"type": "ephemeral", "scope": "global"})]),
        "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted",
    ),
    case(
        "a message that is a string",
        "ANT-04",
        {**ask(), "messages": ["hi"]},
        "messages.0: Input does not match the expected shape.",
    ),
    case(
        "content that is an object",
        "ANT-04",
        ask({"role": "user", "content": {"type": "text"}}),
        "messages.0.content: Input should be a valid list",
    ),
    case(
        "an unknown role",
        "ANT-10",
        ask({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    case(
        "a beta field without its header",
        "ANT-04",
        ask(context_management={}),
        "context_management: Extra inputs are not permitted",
        headers={"anthropic-version": "2023-06-01"},
    ),
    case(
        "a file without its beta",
        "ANT-04",
        ask(user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        "messages.0.content.0.image.source: Input tag 'file' found using 'type' does not match any of the expected"
        " tags: 'base64', 'url'",
        headers={"anthropic-version": "2023-06-01"},
    ),
    case(
        "a result with a foreign block",
        "ANT-04",
        answered(results=[result(content=[{"type": "input_text", "text": "x"}])]),
        "messages.2.content.0.tool_result.content.0: Input tag 'input_text' found using 'type' does not match any of"
        " the expected tags: 'browser_state', 'document', 'image', 'search_result', 'text', 'tool_reference'",
    ),
    case(
        "an OpenAI tool",
        "ANT-04",
        ask(tools=[{"type": "function", "function": {"name": "f"}}]),
        "tools.0: Input tag 'function' found using 'type' does not match any of the expected tags: 'custom'",
    ),
    # --- model and its abilities
    case("an unknown model", "ANT-05", ask(model="claude-sonet-4-5"), "model: claude-sonet-4-5"),
    case(
        "more output than the model has",
        "ANT-05",
        {**ask(), "max_tokens": 128_000},
        "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    ),
    case(
        "an effort the model lacks",
        "ANT-05",
        ask(model="claude-opus-4-6", output_config={"effort": "xhigh"}),
        "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.",
    ),
    case(
        "a temperature in the new version",
        "ANT-03",
        ask(temperature=1),
        "temperature: Extra inputs are not permitted",
        headers=VERSION,
    ),
    case(
        "a temperature for a new model",
        "ANT-03",
        ask(model=NEW, temperature=0.5),
        "temperature is deprecated for this model",
    ),
    case(
        "a temperature while thinking",
        "ANT-03",
        ask(temperature=0.5, **thinks("enabled", budget_tokens=1024)),
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode",
    ),
    case(
        "a budget above the limit",
        "ANT-50",
        ask(**thinks("enabled", budget_tokens=4096)),
        abilities.BUDGET_TOO_BIG,
    ),
    case(
        "manual thinking on a new model",
        "ANT-50",
        ask(model=NEW, **thinks("enabled", budget_tokens=1024)),
        f'"thinking.type.enabled" is not supported for this model. {ADVICE}',
    ),
    case(
        "adaptive thinking on an old model",
        "ANT-50",
        ask(**thinks("adaptive")),
        "adaptive thinking is not supported on this model",
    ),
    case(
        "no thinking where it cannot be turned off",
        "ANT-50",
        ask(model=BINDING, **thinks("disabled")),
        f'"thinking.type.disabled" is not supported for this model. {ADVICE}',
    ),
    case(
        "no thinking on a model with manual thinking",
        "ANT-50",
        ask(model="claude-fable-5", **thinks("disabled")),
        '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when not'
        ' specified; use "thinking.type.enabled" with "budget_tokens" for extended thinking.',
    ),
    case(
        "a forced tool while thinking",
        "ANT-43",
        ask(tool_choice={"type": "any"}, **TOOLS, **thinks("enabled", budget_tokens=1024)),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    case(
        "a forced tool on a model that refuses force",
        "ANT-43",
        ask(model=BINDING, tool_choice={"type": "tool", "name": "get_weather"}, **TOOLS),
        'tool_choice: type "tool" and "any" are not supported for this model',
    ),
    case(
        "a system message on an old model",
        "ANT-16",
        ask(user(), system()),
        "role 'system' is not supported on this model",
    ),
    case(
        "a system message at the start",
        "ANT-16",
        ask(system(), assistant(), user(), model=BINDING),
        f"messages.0: use the top-level 'system' parameter for the initial system prompt{DIRECTIVE}",
    ),
    case(
        "a system message after the model",
        "ANT-16",
        ask(user(), assistant(), system(), assistant(), user(), model=BINDING),
        "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool"
        f" result{DIRECTIVE}",
    ),
    case(
        "a system message before the user",
        "ANT-16",
        ask(user(), system(), user(), model=BINDING),
        f"messages.1: role 'system' must precede an 'assistant' message or end the array{DIRECTIVE}",
    ),
    case(
        "an empty system message",
        "ANT-16",
        ask(user(), {"role": "system", "content": []}, model=BINDING),
        "messages.1: system content must contain at least one block",
    ),
    case(
        "a picture in a system message",
        "ANT-16",
        ask(user(), system(image()), model=BINDING),
        "messages.1: role 'system' supports text, tool_addition, and tool_removal blocks only",
    ),
    case("a prefill on a new model", "ANT-15", ask(user(), assistant(), model=NEW), NO_PREFILL),
    case(
        "a prefill that ends in a space",
        "ANT-15",
        ask(user(), assistant(text("The answer is "))),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    # --- tools
    case(
        "a tool name with a dot",
        "ANT-40",
        ask(**tool(name="get.weather")),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    case(
        "a tool without a schema",
        "ANT-41",
        ask(tools=[{"name": "get_weather"}]),
        "tools.0.custom.input_schema: Field required",
    ),
    case(
        "a combinator at the top of a schema",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "anyOf": [SCHEMA]})),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    case(
        "a schema of an old draft",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "properties": {"a": {"items": [{"type": "string"}]}}})),
        NOT_2020,
    ),
    case("two tools of one name", "ANT-42", ask(tools=[TOOL, TOOL]), "tools: Tool names must be unique."),
    # --- emptiness
    case("no messages", "ANT-11", {**ask(), "messages": []}, "messages: at least one message is required"),
    case(
        "an empty text block",
        "ANT-12",
        ask(user(text(""), text("hi"))),
        "messages: text content blocks must be non-empty",
    ),
    case(
        "an empty text block in a result",
        "ANT-12",
        answered(results=[result(content=[text("")])]),
        "messages: text content blocks must be non-empty",
    ),
    case(
        "a message of blanks",
        "ANT-13",
        ask(user(text(" "))),
        "messages: text content blocks must contain non-whitespace text",
    ),
    case(
        "an empty message",
        "ANT-14",
        ask(user(), {"role": "assistant", "content": []}, user()),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    case(
        "an empty system block",
        "ANT-17",
        ask(system=[text("")]),
        "system: text content blocks must be non-empty",
    ),
    # --- calls and results
    case("an unanswered call", "ANT-20", ask(user(), assistant(call()), user(), **TOOLS), UNANSWERED),
    case("a call at the very end", "ANT-20", ask(user(), assistant(call()), **TOOLS), UNANSWERED),
    case("text before the results", "ANT-20", answered(results=[text(), result()]), UNANSWERED),
    case(
        "a result without a call",
        "ANT-22",
        ask(user(), assistant(), user(result()), **TOOLS),
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_a. Each `tool_result`"
        " block must have a corresponding `tool_use` block in the previous message.",
    ),
    case(
        "two results for one call",
        "ANT-23",
        answered(results=[result(), result()]),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
        " toolu_a",
    ),
    case(
        "an id used again later",
        "ANT-24",
        ask(user(), assistant(call()), user(result()), assistant(call()), user(result()), **TOOLS),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    case(
        "an id with a colon",
        "ANT-25",
        answered(call("functions.get:0"), results=[result("functions.get:0")]),
        f"messages.1.content.0.tool_use.id: {PATTERN}",
    ),
    case(
        "arguments that are a string",
        "ANT-26",
        answered(call(input='{"city": "Paris"}')),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    case("text behind a call", "ANT-27", answered(call(), text()), UNANSWERED),
    case(
        "a server tool without its result",
        "ANT-30",
        ask(
            user(),
            assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            user(),
        ),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding"
        " `web_search_tool_result` block",
    ),
    case(
        "a server tool's result without its use",
        "ANT-30",
        ask(
            user(),
            assistant({"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text()),
            user(),
        ),
        "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. Each"
        " `advisor_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    # --- thinking
    case(
        "a tool loop that does not start with thinking",
        "ANT-52",
        answered(**thinks("enabled", budget_tokens=1024)),
        f"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
        f" {thinking.MUST_START}",
    ),
    case(
        "a foreign signature",
        "ANT-55",
        ask(
            user(), assistant({"type": "thinking", "thinking": "hm", "signature": "gAAAAAB"}, text()), user()
        ),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    case(
        "no signature at all",
        "ANT-55",
        ask(user(), assistant({"type": "thinking", "thinking": "hm"}, text()), user()),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    case(
        "thinking without its text",
        "ANT-51",
        ask(user(), assistant({"type": "redacted_thinking"}, text()), user()),
        "messages.1.content.0.redacted_thinking.data: Field required",
    ),
    # --- limits
    case(
        "a picture of an unknown kind",
        "ANT-65",
        ask(user(image(media_type="image/tiff"))),
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png',"
        " 'image/gif' or 'image/webp'",
    ),
    case(
        "an empty picture",
        "ANT-65",
        ask(user(image(data=""))),
        "messages.0.content.0.image.source.base64: image cannot be empty",
    ),
    case(
        "a wide picture among many",
        "ANT-65",
        ask(user(*[image()] * 20, image(data=WIDE))),
        "messages.0.content.20.image.source.base64.data: At least one of the image dimensions exceed max allowed size"
        " for many-image requests: 2000 pixels",
    ),
    case(
        "too long a prompt",
        "ANT-80",
        ask(user(text("word " * 170_000))),
        "prompt is too long: 212509 tokens > 200000 maximum",
    ),
    case(
        "no room for the reply on an old model",
        "ANT-80",
        {**ask(user(text("word " * 120_000)), model="claude-sonnet-4-0"), "max_tokens": 64_000},
        "input length and `max_tokens` exceed context limit: 150009 + 64000 > 200000, decrease input length or"
        " `max_tokens` and try again",
    ),
    case(
        "a fifth cache mark",
        "ANT-85",
        ask(user(*[text(cache_control={"type": "ephemeral"})] * 5)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
]


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


STRICT_CASES = [
    case(
        "an error without words",
        "ANT-28",
        answered(results=[result(content="", is_error=True)]),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    case(
        "an error with a picture",
        "ANT-28",
        answered(results=[result(content=[image()], is_error=True)]),
        "messages.2.content.0.tool_result: all content must be type `text` if `is_error` is true",
    ),
    case(
        "a property key with a space",
        "ANT-41",
        ask(**tool(input_schema={"type": "object", "properties": {"a b": {}}})),
        "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
    ),
    case(
        "a schema without a type",
        "ANT-41",
        ask(**tool(input_schema={"properties": {}})),
        "tools.0.custom.input_schema.type: Field required",
    ),
    case(
        "a thinking block at the end of a message",
        "ANT-56",
        ask(user(), assistant({"type": "thinking", "thinking": "hm", "signature": "x"}), user()),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    case(
        "thinking in a prefill without thinking",
        "ANT-53",
        ask(user(), assistant({"type": "thinking", "thinking": "hm", "signature": "x"}, text())),
        "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
        " To use thinking blocks, enable `thinking` in your request.",
    ),
    case(
        "warming the cache while streaming",
        "ANT-87",
        {**ask(stream=True), "max_tokens": 0},
        "max_tokens: Input should be greater than or equal to 1",
    ),
]


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


@pytest.mark.parametrize("body", VALID.values(), ids=VALID.keys())
def test_a_valid_request_is_accepted(body: dict[str, Any]) -> None:
    assert refusals(body, strict=True) == []


@pytest.mark.parametrize(
    "body", [None, [], "x", 3, {}, {"messages": 3}, {"messages": [{"role": {}, "content": 5}]}]
)
def test_no_body_is_too_strange_to_be_refused(body: Any) -> None:
    assert refusals(body)
