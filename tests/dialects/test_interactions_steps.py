"""Steps of an Interactions request that stand where the wire has others."""

from __future__ import annotations

import pytest

from segue.interop.convert import convert

MODEL = "gemini-3.5-flash"


def request(*steps: object) -> dict[str, object]:
    return {"model": MODEL, "store": False, "input": [{"type": "user_input", "content": "hi"}, *steps]}


@pytest.mark.parametrize(
    ("wire", "model"), [("anthropic", "claude-sonnet-4-6"), ("openai_chat", "gpt-4.1"), ("gemini", MODEL)]
)
def test_a_content_among_steps_is_read_as_what_it_is(wire: str, model: str) -> None:
    asked = request({"type": "text", "text": "It rains."}, {"type": "user_input", "content": "Where?"})
    written = convert(asked, to=wire, source="gemini_interactions", model=model).body
    assert b'"It rains."' in written, "not in words that name its type"


def test_a_content_without_text_among_steps_is_not_written_again() -> None:
    asked = request({"type": "text", "text": ""}, {"type": "user_input", "content": "Where?"})
    done = convert(asked, to="gemini_interactions", source="gemini_interactions", model=MODEL)
    again = convert(done.request, to="gemini_interactions", source="gemini_interactions", model=MODEL)
    assert (again.body, again.repairs) == (done.body, ())
