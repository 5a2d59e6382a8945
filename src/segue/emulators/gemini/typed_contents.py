"""A request after parsing: contents with their parts, and small questions about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from segue.emulators.gemini.proto import DATA
from segue.emulators.rules import Confidence, Refusal

Body = Mapping[str, Any]


class Content(Struct, frozen=True):
    """One entry of `contents`. A missing role counts as the user's (GEM-01)."""

    index: int
    role: str
    parts: tuple[Body, ...]

    def having(self, field: str) -> tuple[tuple[int, Body], ...]:
        return tuple((place, part[field]) for place, part in enumerate(self.parts) if field in part)

    @property
    def calls(self) -> tuple[tuple[int, Body], ...]:
        return self.having("function_call")

    @property
    def responses(self) -> tuple[tuple[int, Body], ...]:
        return self.having("function_response")


def contents_of(body: Body) -> list[Content]:
    return [
        Content(index, content.get("role") or "user", tuple(content.get("parts", ())))
        for index, content in enumerate(body.get("contents", ()))
    ]


def declarations_of(body: Body) -> Iterator[tuple[str, Body]]:
    """Every function declaration with its path."""
    for place, tool in enumerate(body.get("tools", ())):
        for index, declaration in enumerate(tool.get("function_declarations", ())):
            yield f"tools[{place}].function_declarations[{index}]", declaration


def settings_of(body: Body) -> Body:
    found: Body = body.get("generation_config", {})
    return found


def calling_of(body: Body) -> Body:
    found: Body = body.get("tool_config", {}).get("function_calling_config", {})
    return found


def data_of(part: Body) -> list[str]:
    return [field for field in DATA if field in part]


def refused(rule: str, message: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(rule, message, type="INVALID_ARGUMENT", confidence=confidence)
