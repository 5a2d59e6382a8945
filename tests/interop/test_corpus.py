"""Real transcripts of other people's programs: every one can be read, and said to every provider that we emulate."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from laws.emulated import EMULATED, complaints_about
from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult
from segue.interop.convert import write_request
from segue.interop.source import SourceRequest, read_request
from segue.providers.models.cards import default_model

CHATS = Path(__file__).parents[3] / "shared" / "corpus" / "chats"
FIELDS = {
    "openai-chat": ("openai_chat", "messages"),
    "openai-responses": ("openai_responses", "input"),
    "anthropic-messages": ("anthropic", "messages"),
    "gemini-contents": ("gemini", "contents"),
}
pytestmark = pytest.mark.skipif(not CHATS.is_dir(), reason="the corpus of real transcripts is not here")


@lru_cache(maxsize=1)
def sources() -> list[tuple[str, SourceRequest]]:
    return [(path.name, read_chat(json.loads(path.read_bytes()))) for path in sorted(CHATS.glob("*.json"))]


def read_chat(chat: dict[str, Any]) -> SourceRequest:
    dialect, field = FIELDS[chat["format"]]
    body: dict[str, Any] = {field: chat["messages"]}
    if chat.get("tools"):
        body["tools"] = chat["tools"]
    if chat.get("model") and dialect != "gemini":
        body["model"] = chat["model"]
    if chat.get("system") and dialect == "anthropic":
        body["system"] = chat["system"]
    return read_request(body, dialect)


def without_seals(source: SourceRequest) -> list[str]:
    """Signatures of the real providers mean nothing to an emulator: it did not make them."""
    return [
        block.seal.payload
        for message in source.messages
        for block in message.blocks
        if isinstance(block, Text | Reasoning | ToolCall) and block.seal is not None
    ]


@pytest.mark.parametrize("to", EMULATED)
def test_every_real_transcript_is_accepted_by_every_emulator_and_loses_no_result(to: str) -> None:
    refused, lost = [], []
    for name, source in sources():
        written = write_request(source, to=to, model=default_model(to))
        told = written.body.decode()
        lost += [
            f"{name}: {block.output}"
            for message in source.messages
            for block in message.blocks
            if type(block) is ToolResult and isinstance(block.output, str) and block.output.isalnum()
            if block.output not in told
        ]
        if source.dialect == to and without_seals(source):
            continue
        complaints = complaints_about(written.request, to, default_model(to))
        refused += [f"{name}: {complaint}" for complaint in complaints]
    assert refused == []
    assert lost == []
