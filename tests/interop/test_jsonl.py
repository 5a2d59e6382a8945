"""A stream of cases: one answer each, in order, whatever a line holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.requests import ALL, anthropic, openai_chat
from segue.interop.convert import Flags, answers


def asked(*cases: Any, **flags: Any) -> list[dict[str, Any]]:
    lines = [case if isinstance(case, bytes) else json.dumps(case).encode() for case in cases]
    return [json.loads(line) for line in answers([line + b"\n" for line in lines], Flags(**flags))]


def test_each_case_gets_its_answer_in_order() -> None:
    told = asked(
        {
            "id": 1,
            "from": "openai_chat",
            "to": "anthropic",
            "model": "claude-opus-5",
            "request": openai_chat(),
        },
        {"id": "two", "to": "openai_chat", "model": "gpt-4.1", "request": anthropic()},
    )
    assert [answer["id"] for answer in told] == [1, "two"]
    assert all(answer["ok"] for answer in told)
    assert told[0]["request"]["model"] == "claude-opus-5"
    assert {repair["kind"] for repair in told[1]["repairs"]} >= {"reasoning_dropped"}


def test_a_bad_line_gets_its_own_error_and_the_rest_go_on() -> None:
    good = {"id": "good", "to": "gemini", "request": openai_chat()}
    told = asked(b"{broken", good, b"[1,2]", {"id": 3}, {"id": 4, "to": "klingon", "request": {}}, good)
    assert [answer["ok"] for answer in told] == [False, True, False, False, False, True]
    for answer in told:
        if not answer["ok"]:
            assert answer["error"].keys() >= {"code", "message", "path", "remedy", "hint"}
            assert answer["error"]["code"] != "internal"
    assert [answer["id"] for answer in told] == [None, "good", None, 3, 4, "good"]


def test_what_a_line_says_wins_over_the_flags() -> None:
    request = openai_chat()
    told = asked(
        {"id": 1, "request": request},
        {"id": 2, "to": "openai_chat", "model": "gpt-4o", "request": request},
        to="anthropic",
        model="claude-opus-5",
    )
    assert told[0]["request"]["model"] == "claude-opus-5"
    assert "max_tokens" in told[0]["request"]
    assert told[1]["request"]["model"] == "gpt-4o"


def test_a_wrong_type_in_a_case_is_told_with_its_place_and_the_id_is_kept() -> None:
    (told,) = asked({"id": 7, "to": 5, "request": {}})
    assert told["id"] == 7
    assert told["error"]["code"] == "bad_case"
    assert told["error"]["path"] == "to"


def test_without_a_model_the_default_is_used_and_told() -> None:
    (told,) = asked({"id": 1, "to": "mistral", "request": openai_chat()})
    assert told["ok"]
    assert told["notes"]


def test_strict_may_stand_in_the_flags_or_in_the_line() -> None:
    case = {"id": 1, "to": "openai_chat", "request": anthropic()}
    assert asked(case, strict=True)[0]["error"]["code"] == "would_lose"
    assert asked({**case, "strict": False}, strict=True)[0]["ok"]


def test_blank_lines_are_no_cases() -> None:
    assert asked(b"", b"   ", {"id": 1, "to": "gemini", "request": openai_chat()})[0]["id"] == 1


def test_an_answer_is_given_before_the_next_line_is_read() -> None:
    read = 0

    def lines() -> Iterator[bytes]:
        nonlocal read
        for number in range(3):
            read += 1
            yield json.dumps({"id": number, "to": "gemini", "request": openai_chat()}).encode()

    stream = answers(lines(), Flags())
    next(stream)
    assert read == 1


@pytest.mark.parametrize("source", ALL)
def test_every_dialect_goes_through(source: str) -> None:
    (told,) = asked({"id": 1, "from": source, "to": "anthropic", "request": ALL[source]})
    assert told["ok"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "messages",
                    "contents",
                    "input",
                    "role",
                    "content",
                    "parts",
                    "tool_calls",
                    "type",
                    "text",
                    "model",
                    "id",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(request=json_values, to=st.sampled_from(("anthropic", "openai_chat", "gemini", "conversation")))
def test_no_request_breaks_the_stream(request: Any, to: str) -> None:
    (told,) = asked({"id": "x", "to": to, "request": request})
    assert told["id"] == "x"
    assert told["ok"] or told["error"]["code"] != "internal", told


@given(line=st.binary(max_size=60).filter(lambda line: b"\n" not in line and line.strip()))
def test_no_bytes_break_the_stream(line: bytes) -> None:
    (told,) = asked(line, to="anthropic")
    assert told["ok"] is False
    assert told["error"]["code"] != "internal"
