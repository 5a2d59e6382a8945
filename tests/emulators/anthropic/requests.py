"""Small requests to say things with in the tests of the Anthropic emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.anthropic.checks import complaints
from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context, enforced

if TYPE_CHECKING:
    from segue.emulators.rules import Refusal

OLD, NEW, BINDING = "claude-sonnet-4-5", "claude-opus-4-7", "claude-opus-5-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Weather by city", "input_schema": SCHEMA}
TOOLS: dict[str, Any] = {"tools": [TOOL]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(words: str = "hello", **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **extra}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content) or "hi"}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content) or "hello"}


def system(*content: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(content) or "Be brief."}


def call(call_id: str = "toolu_a", **extra: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {"city": "Paris"}, **extra}


def result(call_id: str = "toolu_a", content: Any = "18C", **extra: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **extra}


def image(data: str = PIXEL, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def ask(*messages: dict[str, Any], model: str = OLD, **extra: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 2048, "messages": list(messages) or [user()], **extra}


def context(model: str, **extra: Any) -> Context:
    return Context(model=model, facts=facts_for("anthropic", model), **extra)


def refusals(body: Any, **extra: Any) -> list[Refusal]:
    """What the emulator would answer with, the first first."""
    model = body.get("model", "") if isinstance(body, dict) else ""
    circumstances = context(model if isinstance(model, str) else "", **extra)
    return [refusal for refusal in complaints(body, circumstances) if enforced(refusal, circumstances)]
