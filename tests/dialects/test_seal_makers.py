"""A seal whose form shows that somebody else made it goes nowhere, and is reported."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin
from segue.dialects.registry import DIALECTS
from segue.dialects.requests.seal_makers import maker_of, seal_origin
from segue.interop.convert import convert

STAND_IN = "skip_thought_signature_validator"


def _field(tag: int, data: bytes) -> bytes:
    size, length = b"", len(data)
    while length > 0x7F:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([tag]) + size + bytes([length]) + data


def _text(data: bytes) -> str:
    return b64encode(data).decode()


OPENAI = urlsafe_b64encode(b"\x80\0\0\0\0h\xe6" + bytes(range(80))).decode()
GOOGLE = _text(_field(0x12, _field(0x0A, b"\x01\x0c9\xd6" + bytes(200))))
ANTHROPIC = _text(_field(0x12, _field(0x0A, b"\x08\x0b\x18\x02*@" + bytes(64)) + bytes(100)) + b"\x18\x01")
OLDER = _text(_field(0x12, _field(0x0A, b"\x18\x02") + _field(0x12, bytes(12)) + bytes(140)))


@pytest.mark.parametrize(
    ("payload", "maker"),
    [
        (OPENAI, "openai"),
        (GOOGLE, "google"),
        (GOOGLE.rstrip("="), "google"),
        (STAND_IN, "google"),
        (b64encode(STAND_IN.encode()).decode(), "google"),
        (ANTHROPIC, "anthropic"),
        (OLDER, "anthropic"),
        ("", None),
        ("E", None),
        ("EqQB" + "x" * 200, None),
        ("E\ud800" + "x" * 40, None),
        ("skipped", None),
    ],
)
def test_the_maker_of_a_seal_is_known_by_its_form(payload: str, maker: str | None) -> None:
    assert maker_of(payload) == maker


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: "E" + _text(data)))
def test_any_payload_has_a_maker_or_none(payload: str) -> None:
    slot = Origin("anthropic", model="m")
    assert seal_origin(payload, slot, "anthropic") in (
        slot,
        Origin(provider="openai"),
        Origin(provider="google"),
    )


def _messages(signature: str) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "t", "signature": signature}
    said = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    return {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": said}


def _contents(signature: str) -> dict[str, Any]:
    call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": signature}
    answer = {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    parts = {"user": [{"text": "a"}], "model": [call]}
    said = [{"role": role, "parts": held} for role, held in parts.items()]
    return {"model": "gemini-2.5-flash", "contents": [*said, {"role": "user", "parts": [answer]}]}


def _input(signature: str) -> dict[str, Any]:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signature}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    return {"model": "gpt-5.5", "input": [asked, thought, said, asked]}


@pytest.mark.parametrize("signature", [OPENAI, GOOGLE, ANTHROPIC, STAND_IN, "bm9ib2R5J3M="])
@pytest.mark.parametrize(
    ("dialect", "request_with", "foreign"),
    [
        ("anthropic", _messages, {OPENAI, GOOGLE, STAND_IN}),
        ("gemini", _contents, {OPENAI, ANTHROPIC, STAND_IN}),
        ("openai_responses", _input, {GOOGLE, ANTHROPIC, STAND_IN}),
    ],
)
def test_a_seal_in_the_wrong_slot_is_dropped_with_a_repair(
    dialect: str, request_with: Any, foreign: set[str], signature: str
) -> None:
    body = request_with(signature)
    converted = convert(body, to=dialect, source=dialect, model=body["model"])
    # Gemini's own stand-in is no seal at all, and goes back to its wire as it came.
    returned = signature not in foreign or (dialect == "gemini" and signature == STAND_IN)
    assert (signature.encode() in converted.body) is returned
    dropped = [r.kind for r in converted.repairs if r.kind in ("seal_dropped", "reasoning_dropped")]
    assert bool(dropped) is not returned
    assert DIALECTS[dialect].recognises(body) > 0
