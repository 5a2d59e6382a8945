"""How a case is written: a sentence, the rule it breaks, the request, and the words of the refusal."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.anthropic.requests import (
    TOOL,
    TOOLS,
    ask,
    assistant,
    call,
    result,
    user,
)

UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use`"
    " block must have a corresponding `tool_result` block in the next message."
)
PATTERN = "String should match pattern '^[a-zA-Z0-9_-]+$'"
VERSION = {"anthropic-version": "2026-10-21"}
DIRECTIVE = "; the directive-only form (content: [] with output_config) is accepted at any position"
NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
ADVICE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
NOT_2020 = (
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    " (https://json-schema.org/draft/2020-12). Learn more about tool use at"
    " https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."
)
WIDE = "iVBORw0KGgoAAAANSUhEUgAACcQAAAABCAYAAAAfFcSJ"
"""The head of a PNG of 2500 pixels."""


def case(sentence: str, rule: str, body: Any, message: str, **extra: Any) -> Any:
    return pytest.param(
        rule, body, message, extra, marks=pytest.mark.rule(rule), id=sentence.replace(" ", "-")
    )


def without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


def tool(**changes: Any) -> dict[str, Any]:
    return {"tools": [{**TOOL, **changes}]}


def answered(*blocks: Any, results: Any = None, **extra: Any) -> dict[str, Any]:
    return ask(user(), assistant(*blocks or (call(),)), user(*results or [result()]), **{**TOOLS, **extra})


def thinks(kind: str, **extra: Any) -> dict[str, Any]:
    return {"thinking": {"type": kind, **extra}}
