"""Converting a request: nothing real is lost, what is a provider's own stays with it, what is changed is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.requests import ALL, anthropic, gemini, openai_chat, openai_responses
from segue.dialects.registry import NAMES
from segue.errors import TranscriptError, UsageError
from segue.interop.convert import convert
from segue.providers.models.cards import default_model

REAL = (
    "Weather in Paris and Rome?",
    "Checking both.",
    "Paris",
    "Rome",
    "18C",
    "21C",
    "And Oslo?",
    "Be brief.",
)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("to", NAMES)
def test_every_request_can_be_said_in_every_dialect(source: str, to: str) -> None:
    converted = convert(ALL[source], to=to, source=source)
    for words in REAL:
        assert words in converted.body.decode()
    assert "get_weather" in converted.body.decode()


@pytest.mark.parametrize("source", ALL)
def test_a_request_is_recognised(source: str) -> None:
    assert convert(ALL[source], to="conversation").source == source


@pytest.mark.parametrize("source", ALL)
def test_a_valid_request_comes_out_of_its_own_dialect_meaning_the_same(source: str) -> None:
    once = convert(ALL[source], to=source, source=source)
    twice = convert(once.request, to=source, source=source)
    assert [str(repair) for repair in once.repairs if repair.kind != "call_seal_filled"] == []
    assert twice.body == once.body


def test_own_ids_and_signatures_stay_where_they_are_known() -> None:
    body = convert(anthropic(), to="anthropic").body.decode()
    assert "toolu_paris" in body
    assert "c2lnbmVk" in body
    assert "fc_paris" in (told := convert(gemini(), to="gemini", model="gemini-3.7-flash").body.decode())
    assert "c2lnbmVk" in told
    assert "gAAAAsealed" in convert(openai_responses(), to="openai_responses").body.decode()


@pytest.mark.parametrize("to", [name for name in NAMES if name != "anthropic"])
def test_a_signature_never_reaches_another_dialect(to: str) -> None:
    converted = convert(anthropic(), to=to)
    assert "c2lnbmVk" not in converted.body.decode()
    assert "Two lookups." not in converted.body.decode()
    assert any(repair.kind == "reasoning_dropped" for repair in converted.repairs)


def test_another_model_of_the_same_dialect_does_not_get_the_signature() -> None:
    assert "c2lnbmVk" not in convert(anthropic(), to="anthropic", model="claude-opus-5").body.decode()


@pytest.mark.parametrize("source", ALL)
def test_a_conversation_document_holds_all_of_a_request(source: str) -> None:
    document = convert(ALL[source], to="conversation", source=source)
    back = convert(document.body, to=source, source="conversation")
    assert back.request == convert(ALL[source], to=source, source=source).request


def test_the_document_keeps_what_a_dialect_cannot_be_told() -> None:
    document = convert(anthropic(), to="conversation").body
    assert "c2lnbmVk" not in convert(document, to="openai_chat").body.decode()
    assert "c2lnbmVk" in convert(document, to="anthropic").body.decode()


@pytest.mark.parametrize("source", ALL)
def test_a_bare_list_of_messages_is_enough(source: str) -> None:
    body = ALL[source]
    messages = next(body[name] for name in ("messages", "contents", "input") if name in body)
    converted = convert(messages, to="anthropic", source=source)
    assert "21C" in converted.body.decode()


def test_a_bare_list_is_recognised_by_what_is_in_it() -> None:
    assert convert(gemini()["contents"], to="conversation").source == "gemini"
    assert convert(openai_responses()["input"], to="conversation").source == "openai_responses"
    assert convert(openai_chat()["messages"], to="conversation").source == "openai_chat"


def test_bytes_and_text_are_read_as_json() -> None:
    text = json.dumps(openai_chat())
    assert convert(text, to="gemini").body == convert(text.encode(), to="gemini").body


def test_without_a_model_the_default_is_named_and_the_choice_is_told() -> None:
    converted = convert(openai_chat(), to="mistral")
    assert converted.request["model"] == default_model("mistral")
    assert converted.notes


def test_a_model_that_stands_in_the_address_is_not_made_up() -> None:
    converted = convert(openai_chat(), to="gemini")
    assert "model" not in converted.request
    assert converted.notes == ()


def test_the_same_dialect_keeps_its_model() -> None:
    assert convert(openai_chat("gpt-4o"), to="openai_chat").request["model"] == "gpt-4o"


def test_fields_of_one_provider_are_not_sent_to_another_and_that_is_told() -> None:
    body = {**openai_chat(), "logit_bias": {"50256": -100}}
    converted = convert(body, to="anthropic")
    assert "50256" not in converted.body.decode()
    assert any(repair.kind == "option_not_sent" for repair in converted.repairs)


def test_what_is_not_read_because_its_own_provider_refuses_it_is_reported() -> None:
    marked = [{"type": "text", "text": f"{n}", "cache_control": {"type": "ephemeral"}} for n in range(6)]
    request = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": marked}]}
    converted = convert(request, to="anthropic", source="anthropic")
    assert converted.body.count(b'"cache_control"') == 4
    assert [repair.path for repair in converted.repairs if repair.kind == "hints_dropped"] == [
        "messages[0].content[0]",
        "messages[0].content[1]",
    ]


def test_strict_refuses_to_lose_something_and_says_what() -> None:
    with pytest.raises(TranscriptError, match="reasoning") as caught:
        convert(anthropic(), to="openai_chat", strict=True)
    assert caught.value.code == "would_lose"


def test_strict_lets_pass_what_loses_nothing() -> None:
    assert convert(openai_chat(), to="anthropic", strict=True).request["messages"]


@pytest.mark.parametrize(
    "broken", ["5", "null", '"text"', "{}", "[]", '{"foo": 1}', "not json", "", '{"messages": 7}']
)
def test_what_is_no_request_is_refused_clearly(broken: str) -> None:
    with pytest.raises((TranscriptError, UsageError)) as caught:
        convert(broken, to="anthropic")
    assert caught.value.code
    assert caught.value.hint or caught.value.path


def test_an_unknown_dialect_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="anthropic"):
        convert(openai_chat(), to="antropic")


def test_other_names_of_dialects_are_understood() -> None:
    assert convert(openai_chat(), to="Anthropic-Messages").to == "anthropic"


def test_an_interrupted_session_becomes_sendable_everywhere() -> None:
    body = openai_chat()
    body["messages"] = [*body["messages"][:4], {"role": "user", "content": "never mind"}]
    for to in NAMES:
        converted = convert(body, to=to)
        assert any(repair.kind == "call_closed" for repair in converted.repairs)
        assert "18C" in converted.body.decode()


def test_the_answer_is_complete_json() -> None:
    converted: dict[str, Any] = convert(openai_chat(), to="anthropic").request
    assert {"model", "messages", "max_tokens", "system", "tools"} <= converted.keys()
