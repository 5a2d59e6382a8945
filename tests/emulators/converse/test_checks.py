"""One request per rule that breaks it and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from segue.emulators.converse.checks import complaints, count_complaints, sign
from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context, first_enforced

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NEWER = "global.anthropic.claude-opus-4-8"
NOVA = "amazon.nova-lite-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
POINT = {"cachePoint": {"type": "default"}}
TOOLS = {
    "tools": [
        {"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": {"json": {"type": "object"}}}}
    ]
}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def context(model: str = CLAUDE) -> Context:
    return Context(model=model, facts=facts_for("bedrock", model))


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [{"text": "Hello."}]}


def model(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or [{"text": "Good day."}]}


def call(call_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": "read", "input": {}, **fields}}


def result(call_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": "done"}], **fields}}


def thought(text: str = "Well.", **fields: Any) -> dict[str, Any]:
    return {"reasoningContent": {"reasoningText": {"text": text, **fields}}}


def signed(text: str = "Well.", model: str = CLAUDE) -> dict[str, Any]:
    return thought(text, signature=sign(text, context(model)))


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), **fields}


IMAGE = {"image": {"format": "png", "source": {"bytes": "aGVsbG8="}}}
PAIR = (user(), model(call()), user(result()))

ACCEPTED = [
    chat(user()),
    chat(*PAIR, toolConfig=TOOLS),
    chat(
        user(),
        model(signed(), call()),
        user(result()),
        toolConfig=TOOLS,
        additionalModelRequestFields=THINKING,
    ),
    chat(
        user({"text": "a"}, POINT),
        system=[{"text": "b"}, POINT],
        toolConfig={"tools": [*TOOLS["tools"], POINT]},
    ),
    chat(
        user(
            IMAGE,
            {"document": {"format": "pdf", "name": "a b", "source": {"bytes": "aGVsbG8="}}},
            {"text": "?"},
        )
    ),
    chat(user(), inferenceConfig={"maxTokens": 10, "temperature": 0.5, "topP": 1, "stopSequences": ["x"]}),
    chat(user(), outputConfig={"effort": "low"}),
]


@pytest.mark.parametrize("body", ACCEPTED)
def test_a_valid_request_is_accepted(body: Any) -> None:
    assert list(complaints(body, context())) == []


CASES: list[tuple[str, Any, str, str]] = [
    ("BDR-00", {**chat(user()), "newer": 1}, "extraneous key [newer]", CLAUDE),
    ("BDR-00", chat({"role": "user"}), "Value null at 'messages.1.member.content'", CLAUDE),
    ("BDR-00", chat(user({"text": 5})), "NUMBER_VALUE can not be converted to a String", CLAUDE),
    ("BDR-00", chat(user({"text": "a", "image": IMAGE["image"]})), "exactly one of the fields", CLAUDE),
    ("BDR-01", chat(model(), user()), "A conversation must start with a user message.", CLAUDE),
    ("BDR-01", chat(), "A conversation must start with a user message.", CLAUDE),
    ("BDR-01", chat(user(), user()), "must alternate between user and assistant roles", CLAUDE),
    (
        "BDR-02",
        chat(user(), model(call()), user(), toolConfig=TOOLS),
        "messages.2.content for the following Ids: a",
        CLAUDE,
    ),
    (
        "BDR-02",
        chat(user(), model(call()), toolConfig=TOOLS),
        "messages.2.content for the following Ids: a",
        CLAUDE,
    ),
    (
        "BDR-03",
        chat(user(), model(call()), user(result(), result("b")), toolConfig=TOOLS),
        "exceeds the number of toolUse blocks of previous turn.",
        CLAUDE,
    ),
    ("BDR-03", chat(user(result()), toolConfig=TOOLS), "exceeds the number of toolUse blocks", CLAUDE),
    ("BDR-04", chat(*PAIR), "The toolConfig field must be defined", CLAUDE),
    ("BDR-04", chat(user(), toolConfig={"tools": []}), "have length greater than or equal to 1", CLAUDE),
    (
        "BDR-05",
        chat(user(), model(call()), user(result(content=[], status="error")), toolConfig=TOOLS),
        "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
        CLAUDE,
    ),
    ("BDR-06", chat(user({"text": " "})), "messages.0.content.0 is blank. Add text", CLAUDE),
    ("BDR-06", chat({"role": "user", "content": []}), "messages.0 is empty", CLAUDE),
    ("BDR-06", chat(user(), model({"text": "So "})), "cannot end with trailing whitespace", CLAUDE),
    ("BDR-06", chat(user(), model()), "does not support assistant message prefill", NEWER),
    (
        "BDR-07",
        chat(user(), model(call("a|b")), user(result("a")), toolConfig=TOOLS),
        "toolUse.toolUseId' failed",
        CLAUDE,
    ),
    (
        "BDR-07",
        chat(user(), model(call(input=[])), user(result()), toolConfig=TOOLS),
        "Provide a json object",
        CLAUDE,
    ),
    (
        "BDR-07",
        chat(
            user(),
            toolConfig={
                "tools": [{"toolSpec": {"name": "a.b", "inputSchema": {"json": {"type": "object"}}}}]
            },
        ),
        "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
        CLAUDE,
    ),
    (
        "BDR-07",
        chat(user(), model(call(), call()), user(result()), toolConfig=TOOLS),
        "is a duplicate",
        CLAUDE,
    ),
    (
        "BDR-08",
        chat(user(), toolConfig={**TOOLS, "toolChoice": {"any": {}}}),
        "doesn't support the toolConfig.toolChoice.any",
        LLAMA,
    ),
    (
        "BDR-08",
        chat(user(), toolConfig={**TOOLS, "toolChoice": {"tool": {"name": "x"}}}),
        "Tool 'x' not found",
        CLAUDE,
    ),
    ("BDR-08", chat(user(call()), model(), toolConfig=TOOLS), "User messages cannot contain toolUse", CLAUDE),
    (
        "BDR-08",
        chat(user(), toolConfig={**TOOLS, "toolChoice": {"any": {}}}, additionalModelRequestFields=THINKING),
        "Thinking may not be enabled when tool_choice forces tool use.",
        CLAUDE,
    ),
    (
        "BDR-11",
        chat({"role": "tool", "content": [{"text": "a"}]}),
        "satisfy enum value set: [user, assistant, system]",
        CLAUDE,
    ),
    (
        "BDR-11",
        chat(user(), {"role": "system", "content": [{"text": "a"}]}),
        "doesn't support the system role",
        CLAUDE,
    ),
    (
        "BDR-12",
        chat(user(), inferenceConfig={"temperature": 2}),
        "have value less than or equal to 1",
        CLAUDE,
    ),
    (
        "BDR-12",
        chat(user(), inferenceConfig={"maxTokens": 0}),
        "have value greater than or equal to 1",
        CLAUDE,
    ),
    (
        "BDR-12",
        chat(user(), inferenceConfig={"stopSequences": [""]}),
        "have length greater than or equal to 1",
        CLAUDE,
    ),
    (
        "BDR-12",
        chat(user(), additionalModelRequestFields={"top_k": 1}),
        "top_k: Extra inputs are not permitted",
        NOVA,
    ),
    (
        "BDR-12",
        chat(user(), inferenceConfig={"maxTokens": 99_999}),
        "exceeds the model limit of 64000",
        CLAUDE,
    ),
    (
        "BDR-12",
        chat(user(), inferenceConfig={"maxTokens": 1500}, additionalModelRequestFields=THINKING),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        CLAUDE,
    ),
    (
        "BDR-13",
        chat(user(), model(signed(), POINT, {"text": "So."}), user()),
        "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point and try again.",
        CLAUDE,
    ),
    (
        "BDR-13",
        chat(user(), toolConfig={"tools": [*TOOLS["tools"], POINT]}),
        "#/toolConfig/tools/1: extraneous key [cachePoint] is not permitted",
        NOVA,
    ),
    ("BDR-13", chat(user({"text": "a"}, POINT)), "did not allow prompt caching", LLAMA),
    (
        "BDR-13",
        chat(*[turn for _ in range(5) for turn in (user({"text": "a"}, POINT), model())], user()),
        "Found 5.",
        CLAUDE,
    ),
    (
        "BDR-14",
        chat(user(), model(thought(), {"text": "So."}), user()),
        "thinking.signature: Field required",
        CLAUDE,
    ),
    (
        "AWS-10",
        chat(user(), model(thought(signature="x"), {"text": "So."}), user()),
        "Invalid `signature`",
        CLAUDE,
    ),
    (
        "AWS-10",
        chat(user(), model(signed(model=NEWER), {"text": "So."}), user()),
        "Invalid `signature`",
        CLAUDE,
    ),
    (
        "BDR-14",
        chat(user(), model(thought(), {"text": "So."}), user()),
        "doesn't support the reasoningContent",
        NOVA,
    ),
    (
        "BDR-14",
        chat(user(), model(thought(signature=""), {"text": "So."}), user()),
        "The signature field at messages.1.content.0.reasoningContent is empty.",
        "us.amazon.nova-2-lite-v1:0",
    ),
    (
        "BDR-14",
        chat(user(), model({"text": "So."}, signed()), user()),
        "The final block in an assistant message",
        CLAUDE,
    ),
    (
        "BDR-15",
        chat(*PAIR, toolConfig=TOOLS, additionalModelRequestFields=THINKING),
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        CLAUDE,
    ),
    (
        "BDR-16",
        chat(user({"image": {"format": "tiff", "source": {"bytes": "aGVsbG8="}}})),
        "[png, jpeg, gif, webp]",
        CLAUDE,
    ),
    ("BDR-16", chat(user({"image": {"format": "png", "source": {"bytes": "?"}}})), "Invalid base64", CLAUDE),
    (
        "BDR-16",
        chat(user({"document": {"format": "pdf", "name": "", "source": {"bytes": "aGVsbG8="}}})),
        "have length greater than or equal to 1",
        CLAUDE,
    ),
    (
        "AWS-05",
        chat(user()),
        "Invocation of model ID anthropic.claude-sonnet-4-5-20250929-v1:0 with on-demand throughput isn’t supported.",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
    ("AWS-05", chat(user()), "The provided model identifier is invalid.", "gpt-4.1"),
    ("BDR-19", chat(user({"text": "a" * 600_000})), "Input is too long for requested model.", LLAMA),
]


@pytest.mark.parametrize(
    ("rule", "body", "message", "model"),
    [
        pytest.param(*case, marks=pytest.mark.rule(case[0]), id=f"{case[0]}-{number}")
        for number, case in enumerate(CASES)
    ],
)
def test_a_broken_rule_is_refused_in_the_services_words(
    rule: str, body: Any, message: str, model: str
) -> None:
    found = list(complaints(deepcopy(body), context(model)))
    assert {refusal.rule for refusal in found} == {rule}, found
    refusal = first_enforced(found, context(model))
    assert refusal is not None
    assert message in refusal.message
    assert refusal.status == 400


@pytest.mark.rule("AWS-09")
def test_a_count_is_asked_for_a_request_of_either_kind() -> None:
    counted = {"input": {"converse": chat(user())}}
    assert list(count_complaints(counted, context())) == []
    assert list(count_complaints({"input": {"invokeModel": {"body": "e30="}}}, context())) == []
    assert list(count_complaints({}, context()))
    assert list(count_complaints({"input": {"converse": chat(model())}}, context()))
