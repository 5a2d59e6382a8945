"""Real answers of real servers: each decodes, folds and is written again without loss; each refusal is classified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dialects.recordings import without_price_facts
from segue.conversation.blocks import Origin, Reasoning
from segue.conversation.events import Event, Reply, fold
from segue.conversation.message import Conversation
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.errors import ProviderError
from segue.transcript.adopt import adopt
from segue.transcript.render import render

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the recorded traffic is not here: no shared/corpus"
)
SPEAKERS = {
    "openai": "openai_chat",
    "azure": "openai_chat",
    "deepseek": "deepseek",
    "xai": "xai",
    "groq": "groq",
    "openrouter": "openrouter",
    "zai": "glm",
    "moonshot": "kimi",
    "dashscope": "qwen",
    "ollama": "ollama_v1",
}
OTHERS = ("anthropic", "bedrock", "cohere", "gemini", "mistral", "vertex")


def recordings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted((CORPUS / "wire").glob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        provider = recorded["provider"]
        if provider not in OTHERS:
            yield path.name, SPEAKERS.get(provider, "openai_compatible"), recorded["response"]


def essence(reply: Reply) -> tuple[Any, ...]:
    calls = [(call.name, call.arguments) for call in reply.message.calls]
    thought = "".join(block.text for block in reply.message.blocks if isinstance(block, Reasoning))
    seals = sorted(
        block.seal.payload for block in reply.message.blocks if hasattr(block, "seal") and block.seal
    )
    usage = without_price_facts(reply).usage
    return reply.message.text, thought, calls, seals, reply.finish, usage, reply.id, reply.model


def heard(name: str, data: bytes, size: int) -> list[Event]:
    decoder = DIALECTS[name].new_decoder()
    portions = (data[start : start + size] for start in range(0, len(data), size))
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


def test_whole_replies_decode_and_are_written_again_without_loss() -> None:
    seen = 0
    for file, name, response in recordings():
        told = response.get("json")
        if not isinstance(told, dict) or not told.get("choices") or "message" not in told["choices"][0]:
            continue
        seen += 1
        origin = Origin(name)
        reply = fold(DIALECTS[name].decode_reply(json.dumps(told).encode()), origin)
        message = told["choices"][0]["message"]
        assert reply.error is None, file
        assert len(reply.message.calls) == len(message.get("tool_calls") or ()), file
        content = message.get("content")
        if isinstance(content, str) and content.startswith("<think>"):
            assert all(block.text in content for block in reply.message.blocks if hasattr(block, "text")), (
                file
            )
        elif isinstance(content, str):
            assert reply.message.text == content + (message.get("refusal") or ""), file
        again = fold(DIALECTS[name].decode_reply(DIALECTS[name].encode_reply(reply)), origin)
        assert essence(again) == essence(reply), file
    assert seen > 300


def test_streams_decode_wherever_they_are_cut_and_are_written_again_without_loss() -> None:
    seen = broken = 0
    for file, name, response in recordings():
        text = response.get("text") or ""
        if not response.get("stream") or '"choices"' not in text or '"content_block"' in text:
            continue
        if response["stream"] == "jsonl-of-sse-data":
            lines = [line for line in text.splitlines() if line.strip()]
            text = "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]"))
        seen += 1
        data, origin = text.encode(), Origin(name)
        events = heard(name, data, len(data))
        reply = fold(events, origin)
        cut = fold(heard(name, data, 11), origin)
        assert essence(cut) == essence(reply), file
        if reply.error is not None:
            broken += 1
            assert isinstance(reply.error, ProviderError), file
            continue
        encoder = DIALECTS[name].new_encoder(reply.model)
        written = b"".join(encoder.feed(event) for event in events) + encoder.close()
        assert essence(fold(heard(name, written, 64), origin)) == essence(reply), file
    assert seen > 200
    assert broken == 3  # recorded failures in the middle of a stream


def test_every_recorded_refusal_is_of_a_class_that_fits_its_status() -> None:
    remedies = {
        400: {"fix", "shrink", "log_in", "go_elsewhere"},
        401: {"log_in"},
        404: {"fix"},
        408: {"go_elsewhere"},
        409: {"go_elsewhere"},
        413: {"shrink"},
        422: {"fix", "shrink"},
        429: {"wait", "shrink", "pay"},
    }
    seen = 0
    for file, name, response in recordings():
        status = response.get("status") or 0
        if status < 400:
            continue
        seen += 1
        told = response.get("json")
        body = json.dumps(told) if told is not None else response.get("text") or ""
        error = DIALECTS[name].decode_error(status, {}, body.encode())
        assert error.remedy in remedies.get(status, {"go_elsewhere"}), f"{file}: {error!r}"
        assert error.message, file
    assert seen > 100


def test_real_chats_are_taken_in_and_said_again() -> None:
    chat = DIALECTS["openai_chat"]
    seen = 0
    for path in sorted((CORPUS / "chats").glob("openai-chat*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        messages = recorded["messages"]
        decoded = chat.decode_request({"model": "m", "messages": messages})
        adopted = adopt(decoded.messages, system=decoded.system)
        body = _said(adopted.conversation)
        assert chat.recognises(body) >= 0.5
        calls = [call for message in messages for call in message.get("tool_calls") or ()]
        said = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
        assert len(said) >= len(calls), path.name
        again = chat.decode_request(body)
        assert _said(adopt(again.messages, system=again.system).conversation) == body, path.name
        seen += 1
    assert seen > 700


def _said(conversation: Conversation) -> dict[str, Any]:
    chat = DIALECTS["openai_chat"]
    transcript = render(conversation, None, chat.rules.at(model="m"))
    body: dict[str, Any] = json.loads(chat.encode_request(transcript, (), Options(model="m"), UNKNOWN).body)
    return body
