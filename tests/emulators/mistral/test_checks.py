"""One request per rule that breaks it and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.mistral.breaking import case, image, refusals, thinking, weather, words
from emulators.mistral.requests import (
    FIRST,
    MODEL,
    SECOND,
    assistant,
    call,
    chat,
    context,
    system,
    tool,
    user,
)
from segue.emulators.mistral.checks import complaints, embedding_complaints
from segue.emulators.mistral.errors import envelope

if TYPE_CHECKING:
    pass

ORDER = ("invalid_request_message_order", "3230")
CALL = ("invalid_function_call", "3280")
PLAIN = ("invalid_request_error", None)


ONE_CALL = (user(), assistant(None, call()), tool())
NOT_EQUAL = "Not the same number of function calls and responses"
BAD_NAME = "Function name was a.b but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64."

CONVERSATIONS = [
    case(
        "a request names a model",
        "MIS-V01",
        {"messages": [user()]},
        PLAIN,
        "Model name parameter is required for serving mode",
    ),
    case(
        "a conversation is not empty", "MIS-V02", chat(), ORDER, "Conversation must have at least one message"
    ),
    case(
        "a single message is from the user or the system",
        "MIS-V03",
        chat(tool()),
        ORDER,
        "Conversation must start with a user message or system message",
        "zai-glm-5-2",
    ),
    case(
        "the assistant does not speak last",
        "MIS-04 MIS-V04",
        chat(user(), assistant("hello")),
        ORDER,
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    ),
    case(
        "no tool speaks after the system",
        "MIS-V05",
        chat(user(), assistant(None, call()), user(), system(), tool()),
        ORDER,
        "Unexpected role 'tool' after role 'system'",
    ),
    case(
        "no system message follows the assistant",
        "MIS-14 MIS-V05",
        chat(user(), assistant("ok"), system(), user()),
        ORDER,
        "Unexpected role 'system' after role 'assistant'",
    ),
    case(
        "an older model takes no user message right after a result",
        "MIS-02",
        chat(*ONE_CALL, user("and?")),
        ORDER,
        "Unexpected role 'user' after role 'tool'",
        "mistral-large-2411",
    ),
    case(
        "calls and results are counted before version 11",
        "MIS-V06",
        chat(user(), assistant(None, call(), call(SECOND)), tool()),
        ORDER,
        NOT_EQUAL,
        "mistral-large-2411",
    ),
    case(
        "a call has one result",
        "MIS-V07",
        chat(*ONE_CALL, tool()),
        ORDER,
        f"Duplicate tool call id {FIRST} in tool results",
    ),
    case(
        "every call is answered before the end",
        "MIS-05 MIS-V09",
        chat(user(), assistant(None, call(), call(SECOND)), tool()),
        ORDER,
        NOT_EQUAL,
    ),
    case(
        "audio and system do not go together in version 7",
        "MIS-V11",
        chat(system(), user([{"type": "input_audio", "input_audio": "UklGRg=="}])),
        PLAIN,
        "Found system messages at indexes [0] and audio chunks in messages at indexes [1]. "
        "This is not allowed prior to the tokenizer version 13.",
        "voxtral-small-2507",
    ),
    case(
        "old models see no images",
        "MIS-V13",
        chat(user([image()])),
        PLAIN,
        "Unexpected content chunk types in user message: ['ImageURLChunk']",
        "open-mixtral-8x7b",
    ),
    case(
        "old models do not think",
        "MIS-10 MIS-V13",
        chat(user(), assistant([thinking(), words()]), user()),
        PLAIN,
        "Unexpected content chunk types in assistant message: ['ThinkChunk']",
        "mistral-large-2411",
    ),
    case(
        "results hold text only before version 15",
        "MIS-15 MIS-V13",
        chat(user(), assistant(None, call()), tool(content=[image()])),
        PLAIN,
        "Unexpected content chunk types in tool message: ['ImageURLChunk']",
    ),
    case(
        "the newest models keep thoughts out of the system prompt",
        "MIS-V13",
        chat(system([thinking()]), user()),
        PLAIN,
        "Unexpected content chunk types in system message: ['ThinkChunk']",
        "mistral-small-latest",
    ),
    case(
        "an assistant message says or calls something",
        "MIS-06",
        chat(user(), assistant(""), user()),
        PLAIN,
        "Assistant message must have either content or tool_calls, but not none.",
    ),
    case(
        "the oldest models do not speak and call at once",
        "MIS-V14",
        chat(user(), assistant("wait", call()), tool()),
        PLAIN,
        "Assistant message must have either content or tool_calls, but not both.",
        "open-mistral-7b",
    ),
    case(
        "a prefix is the last message",
        "MIS-V15",
        chat(user(), assistant("so", prefix=True), user()),
        PLAIN,
        "Assistant message with prefix True must be last message",
    ),
    case(
        "a call without id is refused by version 3 to 11",
        "MIS-V16",
        chat(user(), assistant(None, call("null")), tool(SECOND)),
        CALL,
        "Tool call id has to be defined in serving mode.",
        "mistral-large-2411",
    ),
    case(
        "version 3 wants the id of a result",
        "MIS-V19",
        chat(user(), assistant(None, call()), tool(None)),
        CALL,
        "Tool call id has to be defined.",
        "mistral-large-2411",
    ),
    case(
        "function names are plain",
        "MIS-V20",
        chat(user(), assistant(None, call(name="a.b")), tool()),
        CALL,
        BAD_NAME,
    ),
    case(
        "offered functions have plain names",
        "MIS-V20",
        chat(user(), tools=[{"type": "function", "function": {"name": "a.b", "parameters": {}}}]),
        CALL,
        BAD_NAME,
    ),
    case(
        "results name plain functions",
        "MIS-V20",
        chat(user(), assistant(None, call()), tool(name="a.b")),
        CALL,
        BAD_NAME,
    ),
    case(
        "a tool schema is a schema",
        "MIS-V22",
        chat(user(), tools=[weather({"type": "objct"})]),
        PLAIN,
        "Invalid tool schema: 'objct' is not valid under any of the given schemas",
    ),
    case(
        "reasoning effort is for the newest models",
        "MIS-V23 MIS-11",
        chat(user(), reasoning_effort="high"),
        PLAIN,
        "reasoning_effort='high' is not supported for this model",
    ),
]


@pytest.mark.parametrize(("rule", "body", "kind", "text", "model"), CONVERSATIONS)
def test_breaking_one_rule_is_refused_in_mistral_s_words(
    rule: str, body: Any, kind: tuple[str, str | None], text: str, model: str
) -> None:
    (refusal,) = refusals(body, model)
    assert refusal.rule == rule
    assert refusal.status == 400
    assert envelope(refusal, context()) == {
        "object": "error",
        "message": text,
        "type": kind[0],
        "param": None,
        "code": kind[1],
    }


@pytest.mark.rule("MIS-01")
@pytest.mark.rule("MIS-V17")
@pytest.mark.parametrize("model", [MODEL, "mistral-large-2411"])
def test_ids_have_nine_letters_or_digits_in_calls_and_in_results(model: str) -> None:
    found = refusals(chat(user(), assistant(None, call("call_1234")), tool("call_1234")), model)
    assert len(found) == 2
    for refusal in found:
        assert refusal.rule in ("MIS-01", "MIS-V17")
        assert (refusal.type, refusal.code) == CALL
        assert refusal.message == "Tool call id was call_1234 but must be a-z, A-Z, 0-9, with a length of 9."


@pytest.mark.rule("MIS-V18")
@pytest.mark.parametrize("identifier", ["", "null"])
def test_the_newest_validators_want_an_id_that_is_not_null(identifier: str) -> None:
    found = refusals(chat(user(), assistant(None, call(identifier)), tool(identifier)))
    assert {refusal.rule for refusal in found} == {"MIS-V18"}
    assert found[0].message == (
        "Tool call id must be a non-empty string other than 'null' for tokenizer version 13 or newer."
    )


@pytest.mark.rule("MIS-V08")
def test_a_result_of_another_call_is_unexpected() -> None:
    found = refusals(chat(user(), assistant(None, call()), tool(SECOND)))
    assert found[0].message == f"Unexpected tool call id {SECOND} in tool results"


@pytest.mark.rule("MIS-V10")
def test_one_message_does_not_use_an_id_twice() -> None:
    found = refusals(chat(user(), assistant(None, call(), call()), tool()))
    assert [refusal.message for refusal in found] == [f"Duplicate tool call id {FIRST} in assistant message"]


@pytest.mark.rule("MIS-03")
def test_a_result_does_not_follow_the_user() -> None:
    found = refusals(chat(user(), assistant(None, call()), user("stop"), tool()))
    assert [refusal.message for refusal in found] == ["Unexpected role 'tool' after role 'user'"]


@pytest.mark.rule("MIS-02")
def test_a_current_model_takes_a_user_after_a_result() -> None:
    body = chat(*ONE_CALL, user("and?"))
    assert refusals(body, strict=True) == []


@pytest.mark.rule("MIS-05")
def test_a_result_cannot_be_the_first_message() -> None:
    assert [refusal.rule for refusal in refusals(chat(tool(), user("and?")))] == ["MIS-05"]


@pytest.mark.rule("MIS-V23")
def test_mistral_medium_takes_an_effort() -> None:
    medium = context("mistral-medium-latest")
    assert list(complaints(chat(user(), reasoning_effort="high"), medium)) == []


@pytest.mark.rule("MIS-07")
def test_words_and_calls_in_one_message_are_fine() -> None:
    assert refusals(chat(user(), assistant("wait", call()), tool())) == []


@pytest.mark.rule("MIS-10")
def test_thoughts_as_a_plain_string_are_refused_under_strict_only() -> None:
    body = chat(user(), assistant([{"type": "thinking", "thinking": "hm"}, words()]), user())
    assert refusals(body) == []
    assert [refusal.code for refusal in refusals(body, strict=True)] == ["list_type"]


@pytest.mark.rule("MIS-01")
def test_guest_models_keep_their_own_ids() -> None:
    identifier = "chatcmpl-tool-9f149c74c42f265b"
    body = chat(user(), assistant(None, call(identifier)), tool(identifier))
    assert refusals(body, "zai-glm-5-2") == []


@pytest.mark.rule("MIS-16")
def test_the_context_is_limited_when_asked_for() -> None:
    body = chat(user("word " * 30_000), model="open-mistral-7b")
    assert refusals(body, "open-mistral-7b") == []
    (refusal,) = refusals(body, "open-mistral-7b", extra_rules=frozenset({"MIS-16"}))
    assert refusal.message.endswith("too large for model with 32768 maximum context length")


@pytest.mark.parametrize(
    "body", [None, [], "x", 3, {}, {"messages": None}, {"messages": [None]}, {"messages": [{}]}]
)
def test_nonsense_is_refused_not_crashed_upon(body: object) -> None:
    assert refusals(body)[0].status == 422


@pytest.mark.rule("MIS-17")
@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (["x"] * 513, "Too many inputs in request, split into more batches."),
        (["word " * 20_000], "Too many tokens overall, split into more batches."),
    ],
)
def test_embeddings_take_limited_batches(inputs: list[str], text: str) -> None:
    (refusal,) = embedding_complaints({"model": "mistral-embed", "input": inputs}, context("mistral-embed"))
    assert (refusal.status, refusal.message, refusal.code) == (400, text, "3210")


@pytest.mark.rule("MIS-17")
def test_a_full_batch_of_embeddings_is_accepted() -> None:
    assert (
        list(embedding_complaints({"model": "mistral-embed", "input": ["x"] * 512}, context("mistral-embed")))
        == []
    )
