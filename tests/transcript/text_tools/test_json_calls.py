"""Calls as bare JSON objects, for small models: a call is held back until it is whole, a text is not."""

from __future__ import annotations

import pytest

from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.transcript.text_tools.form import ParsedReply, offer_of
from segue.transcript.text_tools.json_calls import JSON_CALLS
from segue.transcript.text_tools.react import REACT

OFFER = offer_of((ToolSpec("read", "Reads a file.", {"type": "object"}),), Options())
CALL = '{"name": "read", "arguments": {"path": "a"}}'


def read(*pieces: str) -> tuple[list[str], ParsedReply]:
    scanner = JSON_CALLS.new_scanner(OFFER)
    shown = [text for piece in pieces for _, text in scanner.feed(piece)]
    return [*shown, *(text for _, text in scanner.close())], scanner.parsed()


@pytest.mark.parametrize("pieces", [(CALL,), (CALL[:9], CALL[9:]), ("```json\n", CALL, "\n```")])
def test_a_call_is_read_whole_and_shown_in_no_part(pieces: tuple[str, ...]) -> None:
    shown, parsed = read(*pieces)
    assert shown == []
    assert (parsed.action, parsed.action_input, parsed.raw_input) == ("read", {"path": "a"}, '{"path": "a"}')
    assert parsed.final_answer is None


def test_a_text_is_shown_while_it_arrives_and_an_object_that_is_no_call_in_the_end() -> None:
    assert read("  ", "It is", " so.") == (["  It is", " so."], ParsedReply(final_answer="  It is so."))
    stranger = CALL.replace("read", "write")
    assert read(stranger) == ([stranger], ParsedReply(final_answer=stranger))
    assert read('{"a": 1}') == (['{"a": 1}'], ParsedReply(final_answer='{"a": 1}'))


@pytest.mark.parametrize("form", [JSON_CALLS, REACT], ids=["json", "react"])
def test_the_instructions_of_every_form_name_the_tools(form: object) -> None:
    assert form in (JSON_CALLS, REACT)
    written = (JSON_CALLS if form is JSON_CALLS else REACT).instructions(OFFER)
    assert "read" in written
    assert "Reads a file." in written
