"""Tool calls in plain text, for models without native calling: Thought, Action, Action Input, Observation."""

from __future__ import annotations

from segue.chat.react.parser import Parsed, correction, parse_react
from segue.chat.react.request import format_observation, format_tools, to_react
from segue.chat.react.stream import ReActReader

MAX_CORRECTIONS = 3
"""How often in one turn a model may be asked to say its action properly."""

__all__ = [
    "MAX_CORRECTIONS",
    "Parsed",
    "ReActReader",
    "correction",
    "format_observation",
    "format_tools",
    "parse_react",
    "to_react",
]
