"""Small requests to say things with in the tests of the Gemini emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.gemini.checks import complaints
from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context, enforced

if TYPE_CHECKING:
    from segue.emulators.rules import Refusal

OLD, THREE, NEWEST = "gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.8-flash"
SENTINEL = "skip_thought_signature_validator"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def text(words: str = "hello", **extra: Any) -> dict[str, Any]:
    return {"text": words, **extra}


def call(name: str = "get_weather", args: Any = None, **extra: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"city": "Paris"} if args is None else args}, **extra}


def signed(name: str = "get_weather") -> dict[str, Any]:
    return call(name, thoughtSignature=SENTINEL)


def response(name: str = "get_weather", value: Any = None, **extra: Any) -> dict[str, Any]:
    return {
        "functionResponse": {"name": name, "response": {"output": "18C"} if value is None else value, **extra}
    }


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts) or [text("hi")]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts) or [text()]}


def ask(*contents: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"contents": list(contents) or [user()], **extra}


def tools(**changes: Any) -> dict[str, Any]:
    declaration = {"name": "get_weather", "description": "Weather", "parameters": SCHEMA, **changes}
    return {"tools": [{"functionDeclarations": [declaration]}]}


def context(name: str = THREE, **extra: Any) -> Context:
    return Context(model=name, facts=facts_for("gemini", name), **extra)


def refusals(body: Any, name: str = THREE, **extra: Any) -> list[Refusal]:
    """What the emulator would answer with, the first first."""
    circumstances = context(name, **extra)
    return [refusal for refusal in complaints(body, circumstances) if enforced(refusal, circumstances)]
