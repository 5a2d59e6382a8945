"""A request retold for a model that knows no tools: its calls and results become ReAct text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.conversation.tools import ToolSpec
from segue.providers.adapter import ChatRequest


def format_tools(tools: Sequence[ToolSpec]) -> str:
    """Instructions that name every tool, what it does and what it takes."""
    raise NotImplementedError


def format_observation(result: Any) -> str:
    raise NotImplementedError


def to_react(request: ChatRequest) -> ChatRequest:
    """The same request with tools told in the system prompt and calls told as text; the given one is untouched."""
    raise NotImplementedError
