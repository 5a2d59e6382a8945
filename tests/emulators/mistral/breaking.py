"""Cases that break one rule each, and the verdict on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.mistral.requests import MODEL, context
from segue.emulators.mistral.checks import complaints
from segue.emulators.rules import enforced

if TYPE_CHECKING:
    from segue.emulators.rules import Refusal


def refusals(body: object, model: str = MODEL, **extra: Any) -> list[Refusal]:
    circumstances = context(model, **extra)
    return [refusal for refusal in complaints(body, circumstances) if enforced(refusal, circumstances)]


def image() -> dict[str, Any]:
    return {"type": "image_url", "image_url": "data:image/png;base64,AAAA"}


def thinking(text: str = "hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def words(text: str = "hello") -> dict[str, Any]:
    return {"type": "text", "text": text}


def weather(parameters: Any, **extra: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", "parameters": parameters, **extra}}


def case(
    sentence: str, rules: str, body: Any, kind: tuple[str, str | None], text: str, model: str = MODEL
) -> Any:
    marks = [pytest.mark.rule(rule) for rule in rules.split()]
    return pytest.param(
        rules.split(maxsplit=1)[0], body, kind, text, model, marks=marks, id=sentence.replace(" ", "-")
    )
