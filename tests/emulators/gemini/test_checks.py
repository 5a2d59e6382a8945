"""Broken rules are refused in the provider's words; what it accepts is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.gemini.cases import CASES, STRICT_CASES
from emulators.gemini.requests import (
    NEWEST,
    OLD,
    SCHEMA,
    SENTINEL,
    THREE,
    ask,
    call,
    context,
    model,
    refusals,
    response,
    signed,
    text,
    tools,
    user,
)
from segue.emulators.gemini import replies
from segue.emulators.gemini.checks import complaints
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.rules import Context

NOT_FOUND = (
    "models/gemini-3.6-flahs is not found for API version v1beta, or is not supported for generateContent."
    " Call ListModels to see the list of available models and their supported methods."
)


@pytest.mark.parametrize(("rule", "body", "message", "name", "extra"), CASES)
def test_a_broken_rule_is_refused_in_the_providers_words(
    rule: str, body: Any, message: str, name: str, extra: dict[str, Any]
) -> None:
    found = refusals(body, name, **extra)
    assert (found[0].rule, found[0].message) == (rule, message)
    assert (found[0].status, found[0].type) == (400, "INVALID_ARGUMENT")


# The parser drops what does not fit: what then is missing breaks a rule of its own.
DROPPED = {"GEM-11", "GEM-14", "GEM-15", "GEM-28", "GEM-30"}


@pytest.mark.parametrize(("rule", "body", "message", "name", "extra"), CASES)
def test_each_of_these_requests_breaks_only_one_rule(
    rule: str, body: Any, message: str, name: str, extra: dict[str, Any]
) -> None:
    found = {refusal.rule for refusal in refusals(body, name, **extra)}
    assert found == {rule} or (rule in DROPPED and found == {rule, "GEM-10"})


@pytest.mark.parametrize(("rule", "body", "message", "name", "extra"), STRICT_CASES)
def test_what_is_less_certain_is_refused_only_when_strict(
    rule: str, body: Any, message: str, name: str, extra: dict[str, Any]
) -> None:
    assert refusals(body, name, **extra) == []
    found = refusals(body, name, strict=True, **extra)
    assert [(refusal.rule, refusal.message) for refusal in found] == [(rule, message)]


@pytest.mark.rule("GEM-45")
def test_a_model_that_does_not_exist_is_not_found() -> None:
    refusal = refusals(ask(), "gemini-3.6-flahs")[0]
    assert (refusal.status, refusal.type, refusal.message) == (404, "NOT_FOUND", NOT_FOUND)


@pytest.mark.rule("GEM-16", "GEM-09")
def test_contradicted_reports_are_enforced_only_when_asked_for_by_id() -> None:
    body = ask(
        model(), user(), model({"functionCall": {"id": "a", "name": "f"}}), user(response("f", id="a"))
    )
    assert refusals(body, OLD, strict=True) == []
    found = refusals(body, OLD, extra_rules=frozenset({"GEM-16", "GEM-09"}))
    assert found[0].message == (
        "Invalid JSON payload received. Unknown name \"id\" at 'contents[2].parts[0].function_call': Cannot find field."
        "\nInvalid JSON payload received. Unknown name \"id\" at 'contents[3].parts[0].function_response': Cannot find"
        " field."
    )
    assert found[1].message == "Please ensure that multiturn requests alternate between user and model"


@pytest.mark.rule("GEM-31")
def test_vertex_has_its_own_words_for_a_bad_name() -> None:
    found = refusals(ask(**tools(name="1st")), OLD, platform="vertex")
    assert found[0].message.startswith(
        "The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations[0].name: [FIELD_INVALID]"
    )


LOOP = (user(), model(signed(), call()), user(response(), response()))
VALID = {
    "a-parallel-call-without-signature-beside-a-signed-one": (ask(*LOOP), THREE),
    "an-earlier-turn-without-signatures": (
        ask(user(), model(call()), user(response()), model(), user()),
        THREE,
    ),
    "the-sentinel-in-base64": (
        ask(
            user(),
            model(call(thoughtSignature="c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=")),
            user(response()),
        ),
        THREE,
    ),
    "the-other-sentinel": (
        ask(user(), model(call(thoughtSignature="context_engineering_is_the_way_to_go")), user(response())),
        THREE,
    ),
    "no-signature-on-an-older-model": (ask(user(), model(call()), user(response())), OLD),
    "a-foreign-signature-on-an-older-model": (
        ask(user(), model(call(thoughtSignature="abcd")), user(response())),
        OLD,
    ),
    "a-model-turn-at-the-end-of-an-older-model": (ask(user(), model()), THREE),
    "consecutive-contents-of-one-role": (ask(user(), user(), model(), model(), user()), NEWEST),
    "snake-case-and-single-values-for-lists": (
        {
            "contents": {"parts": text()},
            "system_instruction": {"parts": text()},
            "generation_config": {"top_k": 4},
        },
        NEWEST,
    ),
    "a-true-json-schema": (
        ask(
            tools=[
                {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"$ref": "#", "oneOf": []}}]}
            ]
        ),
        NEWEST,
    ),
    "types-in-capitals": (
        ask(**tools(parameters={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}})),
        OLD,
    ),
    "an-empty-text-with-its-signature": (
        ask(user(), model(text(), {"text": "", "thoughtSignature": SENTINEL}), user()),
        THREE,
    ),
    "results-in-another-order": (
        ask(user(), model(signed("a"), call("b")), user(response("b"), response("a"))),
        THREE,
    ),
    "text-beside-results": (ask(user(), model(signed()), user(response(), text())), THREE),
}


@pytest.mark.rule("GEM-24")
@pytest.mark.parametrize(("body", "name"), VALID.values(), ids=VALID.keys())
def test_a_valid_request_is_accepted(body: dict[str, Any], name: str) -> None:
    assert refusals(body, name, strict=True) == []


@pytest.mark.rule("GEM-22", "GEM-25")
def test_the_rulebooks_transcript_is_accepted() -> None:
    first = {"functionCall": {"id": "fc_1", "name": "get_weather", "args": {"city": "Paris"}}}
    second = {"functionCall": {"id": "fc_2", "name": "get_weather", "args": {"city": "Rome"}}}
    body = ask(
        user(text("Weather in Paris and Rome?")),
        model(
            text("I need two lookups.", thought=True),
            text("Checking both cities."),
            {**first, "thoughtSignature": SENTINEL},
            second,
        ),
        user(response(id="fc_1"), response(value={"error": "timeout after 5s"}, id="fc_2")),
        model(text("Paris 18C; Rome lookup timed out.")),
        user(text("Thanks. And Oslo?")),
        systemInstruction={"parts": [text("You are a weather assistant.")]},
        tools=[{"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}],
        toolConfig={"functionCallingConfig": {"mode": "AUTO"}},
        generationConfig={"thinkingConfig": {"includeThoughts": True}},
    )
    assert refusals(body, NEWEST, strict=True) == []
    assert refusals({**body, "contents": body["contents"][:3]}, NEWEST, strict=True) == []


def reply_to(body: dict[str, Any], *pieces: Piece, **circumstances: Any) -> dict[str, Any]:
    """What the emulated model answers, as the content that a client appends."""
    answer = replies.whole(Reply(pieces=pieces), body, context(THREE, reply_id="r1", **circumstances))
    content: dict[str, Any] = answer["candidates"][0]["content"]
    return content


def loop(**circumstances: Any) -> dict[str, Any]:
    body = ask(**tools())
    pieces = (Think("Two."), Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"}))
    answer = reply_to(body, *pieces, **circumstances)
    # At Vertex calls have no ids.
    made = [part["functionCall"] for part in answer["parts"]]
    results = user(*[response(id=one["id"]) if "id" in one else response() for one in made])
    return {**body, "contents": [*body["contents"], answer, results]}


@pytest.mark.rule("GEM-20", "GEM-21")
def test_what_the_model_said_is_accepted_when_it_is_sent_back() -> None:
    assert refusals(loop(), strict=True) == []
    said = reply_to(ask(), Think("Hm."), Say("Yes."))
    assert said["parts"][0]["thoughtSignature"]
    assert refusals(ask(user(), said, user()), strict=True) == []


@pytest.mark.rule("GEM-20")
def test_a_signature_may_be_re_encoded_but_not_moved_to_another_call() -> None:
    body = loop()
    first, second = body["contents"][1]["parts"]
    urlsafe = first["thoughtSignature"].replace("+", "-").replace("/", "_").rstrip("=")
    first["thoughtSignature"] = urlsafe
    assert refusals(body) == []
    first["functionCall"]["args"], second["functionCall"]["args"] = {"city": "Rome"}, {"city": "Paris"}
    assert [refusal.message for refusal in refusals(body)] == ["Invalid thought signature."]


@pytest.mark.rule("GEM-23")
@pytest.mark.parametrize("whose", [{"platform": "vertex"}, {"account": "another"}, {"secret": b"foreign"}])
def test_a_signature_of_another_backend_or_account_is_corrupted(whose: dict[str, Any]) -> None:
    assert [refusal.message for refusal in refusals(loop(**whose))] == ["Corrupted thought signature."]


@pytest.mark.rule("GEM-05", "GEM-21")
def test_parallel_calls_split_over_contents_need_their_signatures_and_nothing_else() -> None:
    body = loop()
    asked, answer, results = body["contents"]
    first, second = ({"role": "model", "parts": [part]} for part in answer["parts"])
    one, other = ({"role": "user", "parts": [part]} for part in results["parts"])
    split = {**body, "contents": [asked, first, one, second, other]}
    assert [refusal.rule for refusal in refusals(split)] == ["GEM-21"]
    together = {**body, "contents": [asked, first, second, one, other]}
    assert [refusal.rule for refusal in refusals(together)] == ["GEM-21"]


@pytest.mark.rule("GEM-12")
def test_a_cancelled_call_with_a_result_of_its_own_is_accepted() -> None:
    body = ask(
        user(), model(signed()), user(response(value={"error": "cancelled"})), user(text("Never mind."))
    )
    assert refusals(body, NEWEST, strict=True) == []


def test_recorded_conversations_are_judged_without_their_signatures() -> None:
    body = ask(user(), model(call(thoughtSignature="EukBCuYB")), user(response()))
    facts = {**context(THREE).facts, "trust_foreign_signatures": True}
    assert list(complaints(body, Context(model=THREE, facts=facts))) == []


@pytest.mark.parametrize(
    "body", [None, [], "x", 3, {"contents": 3}, {"contents": [[]]}, {"contents": [{"parts": [None, 5, {}]}]}]
)
def test_no_body_is_too_strange_to_be_refused(body: Any) -> None:
    assert refusals(body)
