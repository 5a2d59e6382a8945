"""What /api/chat refuses, in the words of Ollama and of Go."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.ollama.requests import TOOL, calling, chat, user
from segue.emulators.model.model_facts import facts_for
from segue.emulators.ollama.checks import complaints
from segue.emulators.rules import Context, enforced


def refusals(body: object) -> list[tuple[str, int, str]]:
    model = body.get("model") if isinstance(body, dict) else ""
    name = model if isinstance(model, str) else ""
    context = Context(model=name, facts=facts_for("ollama", name))
    return [
        (refusal.rule, refusal.status, refusal.message)
        for refusal in complaints(body, context)
        if enforced(refusal, context)
    ]


def case(rule: str, sentence: str, body: Any, text: str, status: int = 400) -> Any:
    return pytest.param(
        body, (rule, status, text), marks=pytest.mark.rule(rule), id=sentence.replace(" ", "-")
    )


def properties(value: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": value}},
    }


VALUES = '"high", "medium", "low", "max", true, or false'
CASES = [
    case(
        "OLL-01",
        "content is a string",
        chat(user([{"type": "text", "text": "hi"}])),
        "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
    ),
    case(
        "OLL-02",
        "arguments are an object",
        chat(user(), calling('{"city":"Paris"}')),
        "Value looks like object, but can't find closing '}' symbol",
    ),
    case(
        "OLL-03",
        "a built in template wants a user",
        chat({"role": "system", "content": "hi"}, model="qwen3.5:latest"),
        "no user query found in messages",
        500,
    ),
    case(
        "OLL-03",
        "the system shows no images",
        chat({"role": "system", "content": "hi", "images": ["AAAA"]}, user(), model="qwen3.5:latest"),
        "system message cannot contain images",
        500,
    ),
    case(
        "OLL-04",
        "images have no data in front",
        chat(user(images=["data:image/png;base64,AAAA"])),
        "illegal base64 data at input byte 4",
    ),
    case(
        "OLL-04",
        "an id is a string",
        chat(user(), calling({}, id=7)),
        "json: cannot unmarshal number into Go struct field ChatRequest.messages.tool_calls.id of type string",
    ),
    case(
        "OLL-07",
        "not every model has tools",
        chat(model="gemma3:4b", tools=[TOOL]),
        "registry.ollama.ai/library/gemma3:4b does not support tools",
    ),
    case(
        "OLL-08",
        "not every model thinks",
        chat(model="llama3.2", think=True),
        '"llama3.2" does not support thinking',
    ),
    case(
        "OLL-08",
        "thinking has levels",
        chat(think="hard"),
        f'invalid think value: "hard" (must be {VALUES})',
    ),
    case("OLL-08", "thinking is a word", chat(think=3), f"think must be a boolean or string ({VALUES})"),
    case(
        "OLL-10",
        "an embedding model does not chat",
        chat(model="nomic-embed-text"),
        '"nomic-embed-text" does not support chat',
    ),
    case("OLL-11", "a model is named", {"messages": [user()]}, "model is required"),
    case("OLL-11", "there is a body", None, "missing request body"),
    case("OLL-11", "logprobs are few", chat(top_logprobs=21), "top_logprobs must be between 0 and 20"),
    case("OLL-13", "a duration has a unit", chat(keep_alive="10"), 'time: missing unit in duration "10"'),
    case("OLL-13", "a duration is one", chat(keep_alive="soon"), 'time: invalid duration "soon"'),
    case(
        "OLL-14",
        "options have types",
        chat(options={"num_ctx": "4096"}),
        'option "num_ctx" must be of type integer',
        500,
    ),
    case(
        "OLL-14",
        "a temperature is a number",
        chat(options={"temperature": "hot"}),
        'option "temperature" must be of type float32',
        500,
    ),
    case(
        "OLL-14",
        "stops are a list",
        chat(options={"stop": "."}),
        'option "stop" must be of type array',
        500,
    ),
    case(
        "OLL-16",
        "who forbids cutting is told",
        chat(user("word" * 5_000), truncate=False),
        "request (5004 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ),
    case(
        "OLL-17",
        "properties are an object",
        chat(tools=[properties([])]),
        "json: cannot unmarshal array into Go struct field "
        "ChatRequest.tools.function.parameters.properties of type map[string]api.ToolProperty",
    ),
    case(
        "OLL-17",
        "the type of parameters is a string",
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": ["object"]}}}]),
        "json: cannot unmarshal array into Go struct field ChatRequest.tools.function.parameters.type of type string",
    ),
    case(
        "OLL-18",
        "a format is json or a schema",
        chat(format="yaml"),
        'invalid format: "yaml"; expected "json" or a valid JSON Schema object',
        500,
    ),
    case(
        "OLL-00",
        "messages are a list",
        {"model": "qwen3:8b", "messages": "hi"},
        "json: cannot unmarshal string into Go struct field ChatRequest.messages of type []api.Message",
    ),
    case(
        "OLL-00",
        "a request is an object",
        [],
        "json: cannot unmarshal array into Go value of type api.ChatRequest",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES)
def test_breaking_one_rule_is_refused_in_ollama_s_words(body: Any, expected: tuple[str, int, str]) -> None:
    assert refusals(body) == [expected]


@pytest.mark.rule("OLL-03")
@pytest.mark.rule("OLL-06")
@pytest.mark.parametrize(
    "messages",
    [
        [calling({}), user()],
        [{"role": "tool", "content": "x"}],
        [user(), calling({}), user()],
        [{"role": "assistant", "content": "a"}],
        [{"role": "narrator", "content": "a"}, {}],
        [None],
    ],
)
def test_order_and_pairs_are_nobody_s_business(messages: list[dict[str, Any]]) -> None:
    assert refusals({"model": "llama3.2", "messages": messages}) == []


@pytest.mark.rule("OLL-04")
def test_unknown_fields_are_ignored() -> None:
    assert refusals(chat({**user(), "name": 3, "reasoning_content": []}, tool_choice=3)) == []


@pytest.mark.rule("OLL-14")
def test_unknown_options_and_fractions_are_taken() -> None:
    assert refusals(chat(options={"num_ctx": 4096.5, "made_up": [], "seed": None})) == []


@pytest.mark.rule("OLL-13")
@pytest.mark.parametrize("keep_alive", [0, -1, 300, 1.5, "10m", "1h30m", "-1s", "0", None])
def test_durations_are_seconds_or_go_s_own(keep_alive: Any) -> None:
    assert refusals(chat(keep_alive=keep_alive)) == []


@pytest.mark.rule("OLL-17")
def test_names_are_free_and_most_keywords_unread() -> None:
    wild = properties({"a": {"type": ["string", "null"], "minLength": "x", "enum": [1, None]}})
    wild["function"]["name"] = "any name. at all!"
    assert refusals(chat(tools=[wild])) == []


@pytest.mark.rule("OLL-08")
@pytest.mark.parametrize("think", [True, False, "low", "medium", "high", "max", None])
def test_a_thinking_model_takes_every_level(think: Any) -> None:
    assert refusals(chat(think=think)) == []


@pytest.mark.rule("OLL-16")
def test_who_does_not_forbid_cutting_is_not_told() -> None:
    assert refusals(chat(user("word" * 5_000))) == []


@pytest.mark.rule("OLL-03")
@pytest.mark.rule("OLL-16")
def test_cutting_may_lose_the_only_user_message() -> None:
    long_loop = [user("word" * 3_000), *[calling({"n": "x" * 4_000})] * 3, {"role": "tool", "content": "18C"}]
    assert refusals(chat(*long_loop, model="qwen3.5:latest")) == [
        ("OLL-03", 500, "no user query found in messages")
    ]
    assert refusals(chat(*long_loop, model="qwen3.5:latest", options={"num_ctx": 16_384})) == []


@pytest.mark.rule("OLL-12")
def test_no_messages_only_load_the_model() -> None:
    assert refusals({"model": "qwen3.5:latest"}) == []
