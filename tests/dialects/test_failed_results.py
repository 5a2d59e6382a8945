"""How the failure of a tool is written on each wire: with its flag, or in words where there is none."""

from __future__ import annotations

import json

import pytest

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.dialects.card import fit_rules
from segue.dialects.registry import DIALECTS
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.adopt import adopt
from segue.transcript.render import render

IN_WORDS = ("openai_chat", "openai_responses", "mistral", "ollama", "kimi", "deepseek")
WITH_FLAG = ("anthropic", "gemini")


def _read_back(result: ToolResult, wire: str) -> ToolResult:
    chat = Conversation().append(
        Message("user", (Text("Read it."),)),
        Message("model", (ToolCall("c0", "read", {"path": "a"}),)),
        Message("tool", (result,)),
        Message("user", (Text("Go on."),)),
    )
    dialect, model = DIALECTS[wire], default_model(wire)
    card = card_for_model(model, wire)
    transcript = render(chat, None, fit_rules(dialect.rules.at(model=model), card))
    encoded = dialect.encode_request(transcript, (), Options(model=model, max_tokens=100), card)
    decoded = dialect.decode_request({"model": model, **json.loads(encoded.body)})
    read = adopt(decoded.messages, system=decoded.system, dialect=wire).conversation
    return next(block for message in read.messages for block in message.blocks if type(block) is ToolResult)


@pytest.mark.requirement("Property 12")
@pytest.mark.parametrize("wire", IN_WORDS)
def test_a_failure_is_said_in_words_on_a_wire_without_a_flag(wire: str) -> None:
    assert _read_back(ToolResult("c0", "read", error="no such file"), wire).output == "Error: no such file"
    assert (
        _read_back(ToolResult("c0", "read", error="Error: no such file"), wire).output
        == "Error: no such file"
    )
    assert _read_back(ToolResult("c0", "read", error="Errors: 3"), wire).output == "Error: Errors: 3"


@pytest.mark.requirement("Property 12")
@pytest.mark.parametrize("wire", WITH_FLAG)
def test_a_failure_keeps_its_flag_on_a_wire_that_has_one(wire: str) -> None:
    read = _read_back(ToolResult("c0", "read", error="no such file"), wire)
    assert (read.error, read.output) == ("no such file", None)


@pytest.mark.parametrize("wire", IN_WORDS + WITH_FLAG)
def test_a_result_that_begins_with_error_is_no_failure(wire: str) -> None:
    read = _read_back(ToolResult("c0", "read", "Error: the word stands in the file"), wire)
    assert (read.error, read.output) == (None, "Error: the word stands in the file")
