"""Requests that are only the end of a conversation: as they are for the provider that holds the rest, and for nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.referring_requests import REFERRING, Referring
from segue.errors import TranscriptError
from segue.interop.convert import NOT_HELD, convert
from segue.interop.doctor import examine, fix_transcript
from segue.interop.source import read_request
from segue.providers.models.cards import default_model

USER = {"role": "user", "content": "And now?"}
THREAD = {"thread": {"type": "continue", "previous_message_id": "msg_1"}}
PARTS: list[tuple[str, str, dict[str, Any]]] = [
    ("anthropic", "thread", {"max_tokens": 9, "messages": [USER], **THREAD}),
    ("openai_responses", "conversation", {"input": [USER], "conversation": {"id": "conv_1"}}),
    ("openai_responses", "previous_response_id", {"input": [USER], "previous_response_id": "resp_1"}),
    ("openai_responses", "prompt", {"input": [USER], "prompt": {"id": "pmpt_1"}}),
    (
        "openai_responses",
        "input[0]",
        {"input": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}, USER]},
    ),
    (
        "gemini",
        "cachedContent",
        {"contents": [{"role": "user", "parts": [{"text": "?"}]}], "cachedContent": "cachedContents/1"},
    ),
]
every_part = pytest.mark.parametrize(("wire", "path", "body"), PARTS, ids=[path for _, path, _ in PARTS])
MODEL = {"anthropic": "claude-sonnet-4-6", "openai_responses": "gpt-5.5", "gemini": "gemini-3.5-flash"}


@every_part
@pytest.mark.parametrize("to", ["openai_chat", "mistral", "ollama"])
def test_the_end_of_a_conversation_is_not_converted_for_others(
    wire: str, path: str, body: dict[str, Any], to: str
) -> None:
    request = {"model": MODEL[wire], **body}
    with pytest.raises(TranscriptError) as caught:
        convert(request, source=wire, to=to, model="m")
    assert (caught.value.code, caught.value.path) == (NOT_HELD, path)
    assert caught.value.hint
    document = convert(request, source=wire, to="conversation").body
    if path != "input[0]":
        with pytest.raises(TranscriptError):
            convert(document, to=to, model="m")


@every_part
def test_it_goes_back_to_its_own_wire_as_it_came(wire: str, path: str, body: dict[str, Any]) -> None:
    name = path.partition("[")[0]
    request = {"model": MODEL[wire], **body}
    assert convert(request, source=wire, to=wire).request[name] == request[name]


@every_part
def test_the_doctor_says_that_only_its_provider_can_answer_it(
    wire: str, path: str, body: dict[str, Any]
) -> None:
    source = read_request({"model": MODEL[wire], **body}, wire)
    (diagnosis,) = examine(source, ["openai_chat"]).diagnoses
    assert [(finding.level, finding.code, finding.place) for finding in diagnosis.findings] == [
        ("error", NOT_HELD, path)
    ]
    assert not any(finding.code == NOT_HELD for finding in examine(source, [wire]).diagnoses[0].findings)
    with pytest.raises(TranscriptError):
        fix_transcript(source, ["openai_chat"])


def test_a_thread_that_is_created_is_a_whole_request() -> None:
    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "messages": [USER],
        "thread": {"type": "create"},
    }
    assert convert(body, source="anthropic", to="openai_chat", model="gpt-4.1").request["messages"] == [USER]


def test_a_compaction_that_anybody_can_read_is_content() -> None:
    summary = {"type": "compaction", "content": "The user is Ada.", "signature": "s"}
    body = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "messages": [{"role": "assistant", "content": [summary]}, USER],
    }
    converted = convert(body, source="anthropic", to="openai_chat", model="gpt-4.1")
    assert b"The user is Ada." in converted.body


def test_strict_refuses_a_lost_option() -> None:
    body = {"model": "gpt-4.1", "messages": [USER], "logit_bias": {"50256": -100}}
    with pytest.raises(TranscriptError, match="logit_bias"):
        convert(body, source="openai_chat", to="anthropic", model="claude-sonnet-4-6", strict=True)


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
@pytest.mark.parametrize("to", ["anthropic", "openai_chat", "gemini", "openai_responses"])
def test_what_only_a_provider_holds_is_refused_or_reported_as_lost(case: Referring, to: str) -> None:
    body = {"model": "any", **case.fields}
    if to == case.wire:
        return
    try:
        done = convert(body, to=to, source=case.wire, model=default_model(to))
    except TranscriptError as error:
        assert error.path
        return
    lost = {repair.kind for repair in done.repairs if repair.lossy or repair.kind == "option_not_sent"}
    assert lost or case.sees.encode() in done.body
    if "file" in case.name and "tools" not in case.fields:
        assert any(case.sees in repair.decision for repair in done.repairs), done.repairs
    if lost:
        with pytest.raises(TranscriptError):
            convert(body, to=to, source=case.wire, model=default_model(to), strict=True)
