"""The doctor: every fault is named with the provider's words, sound files are left alone, mended ones are sound."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.requests import ALL, anthropic, gemini, mistral, openai_chat, openai_responses
from interop.session_samples import claude_code, codex, llm_logs
from segue.conversation.blocks import Text
from segue.conversation.document import encode_document
from segue.conversation.message import Conversation, Message
from segue.dialects.registry import NAMES
from segue.interop.doctor import Examination, examine, fix_transcript, groups, provider_refusals
from segue.interop.session_files import read_file
from segue.interop.source import read_request
from segue.transcript.repairs import FAULTS
from strategies.histories import conversations
from strategies.targets import TARGETS


def examined(body: Any, *targets: str, model: str = "") -> Examination:
    return examine(read_request(body), targets, model=model)


def codes(examination: Examination) -> set[str]:
    return {
        finding.code
        for diagnosis in examination.diagnoses
        for finding in diagnosis.findings
        if finding.level == "error"
    }


def unanswered(body: dict[str, Any]) -> dict[str, Any]:
    """The body without the second call's result."""
    copied: dict[str, Any] = json.loads(json.dumps(body), object_hook=_without_rome)
    return copied


def _without_rome(value: dict[str, Any]) -> dict[str, Any]:
    for name in ("messages", "contents", "input", "content", "parts"):
        if isinstance(value.get(name), list):
            value[name] = [part for part in value[name] if not (isinstance(part, dict) and _is_rome(part))]
    return value


def _is_rome(part: dict[str, Any]) -> bool:
    response = part.get("functionResponse", {})
    return "21C" in (part.get("content"), part.get("output")) or response.get("response") == {"output": "21C"}


@pytest.mark.parametrize("dialect", [name for name in ALL if name != "gemini"])
def test_a_sound_request_is_clean(dialect: str) -> None:
    assert codes(examined(ALL[dialect])) == set()


def test_a_sound_gemini_request_is_clean_for_the_model_it_was_made_with() -> None:
    source = read_request(gemini(), model="gemini-3.7-flash", to="gemini")
    assert codes(examine(source, ("gemini",), model="gemini-3.7-flash")) == set()


@pytest.mark.parametrize("dialect", ALL)
def test_a_sound_request_is_clean_for_all(dialect: str) -> None:
    examination = examined(ALL[dialect], "all")
    others = [diagnosis for diagnosis in examination.diagnoses if diagnosis.target != dialect]
    assert sum(diagnosis.errors for diagnosis in others) == 0
    assert len(examination.diagnoses) == len(NAMES)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (openai_chat(), "CHAT-10"),
        (openai_responses(), "RESP-10"),
        (anthropic(), "ANT-20"),
        (gemini(), "GEM-04"),
        (mistral(), "MIS-05"),
        (openai_chat("kimi-k2-0905-preview"), "KIM-05"),
        (openai_chat("deepseek-chat"), "DSK-03"),
    ],
)
def test_a_call_without_a_result_is_named_in_the_providers_words(body: dict[str, Any], code: str) -> None:
    examination = examined(unanswered(body))
    finding = next(f for d in examination.diagnoses for f in d.findings if f.code == code)
    assert finding.status == 400
    assert finding.provider_error
    assert finding.fix
    assert finding.place
    assert not examination.clean


def test_the_place_is_one_in_the_file() -> None:
    body = unanswered(openai_chat())
    (finding,) = examined(body).diagnoses[0].findings
    assert finding.place == "messages[2]"
    assert body["messages"][2]["tool_calls"]
    assert finding.call_ids == ("call_rome",)


def test_the_place_in_a_session_file_has_a_line() -> None:
    source, lines = read_file(claude_code())
    examination = examine(source, (), lines=lines)
    (finding,) = [f for f in examination.diagnoses[0].findings if f.code == "ANT-20"]
    assert finding.place.startswith("line 3, messages[1]")
    assert finding.call_ids == ("toolu_01B",)


def test_ids_that_a_named_target_would_refuse_are_named() -> None:
    finding = next(f for f in examined(openai_chat(), "mistral").diagnoses[0].findings if f.code == "MIS-01")
    assert finding.provider_error == (
        "Tool call id was call_paris but must be a-z, A-Z, 0-9, with a length of 9."
    )


def test_signed_thinking_for_another_provider_is_named() -> None:
    codes_of_model = codes(examined(anthropic(), "anthropic", model="claude-opus-5"))
    assert "ANT-55" in codes_of_model


def test_an_id_that_comes_twice_is_named_where_ids_must_be_unique() -> None:
    body = anthropic()
    text = json.dumps(body)
    body["messages"] = [*body["messages"], *json.loads(text)["messages"][1:]]
    assert "ANT-24" in codes(examined(body))


def test_orphans_and_duplicates_are_named() -> None:
    body = openai_chat()
    body["messages"].insert(5, {"role": "tool", "tool_call_id": "call_rome", "content": "22C"})
    body["messages"].insert(1, {"role": "tool", "tool_call_id": "call_gone", "content": "?"})
    assert codes(examined(body)) >= {"CHAT-11", "CHAT-13"}


def test_no_messages_at_all_is_a_finding() -> None:
    assert codes(examined({**openai_chat(), "messages": []})) == {"CHAT-02"}


BROKEN = {name: unanswered(body) for name, body in ALL.items() if name != "ollama"}


@pytest.mark.parametrize("dialect", BROKEN)
@pytest.mark.parametrize("targets", [(), ("all",), ("anthropic",), ("mistral", "kimi")])
def test_a_mended_file_is_clean_and_mending_it_again_changes_nothing(
    dialect: str, targets: tuple[str, ...]
) -> None:
    source = read_request(BROKEN[dialect])
    form, once = fix_transcript(source, targets)
    assert form in (*NAMES, "conversation")
    mended, _ = read_file(once)
    assert codes(examine(mended, targets)) == set()
    assert fix_transcript(mended, targets)[1] == once
    assert b"18C" in once


@pytest.mark.parametrize("data", [claude_code(), codex(), llm_logs()])
def test_a_broken_session_file_is_found_and_mended(data: bytes) -> None:
    source, lines = read_file(data)
    assert not examine(source, (), lines=lines).clean
    _, mended = fix_transcript(source)
    assert codes(examine(read_file(mended)[0])) == set()


@given(data=st.data())
@settings(max_examples=30)
def test_any_mended_conversation_is_clean_for_everybody(data: st.DataObject) -> None:
    conversation = data.draw(conversations(TARGETS["anthropic"]))
    source = read_request(json.loads(encode_document(conversation)))
    _, mended = fix_transcript(source, ("all",))
    again = read_request(json.loads(mended))
    if again.messages:
        assert codes(examine(again, ("all",))) == set()
    assert fix_transcript(again, ("all",))[1] == mended


def test_a_reply_without_any_text_is_dropped_when_a_conversation_is_fixed() -> None:
    silent = Conversation((Message("model", (Text(""),)), Message("user", (Text("Hi"),))))
    fixed = read_request(
        json.loads(fix_transcript(read_request(json.loads(encode_document(silent))), ("all",))[1])
    )
    assert [message.speaker for message in fixed.messages] == ["user"]
    assert codes(examine(fixed, ("all",))) == set()


def test_every_refusal_speaks_of_a_repair_we_make() -> None:
    for group in groups():
        assert set(group.dialects) <= set(NAMES)
        for refusal in group.refusals:
            assert refusal.kind in FAULTS or refusal.kind == "empty"


@pytest.mark.parametrize("dialect", NAMES)
def test_what_is_said_of_one_dialect_comes_before_what_is_said_of_many(dialect: str) -> None:
    assert provider_refusals(dialect).place
    assert provider_refusals("deepseek").refusal("call_closed") != provider_refusals("openai_chat").refusal(
        "call_closed"
    )
