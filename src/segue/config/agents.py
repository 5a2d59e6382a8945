"""Subagents of one's own: a Markdown file each, with its settings in front and its system prompt below.

The user's are used as they are. A project's are used once they are trusted, and never in place of one of the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.config.paths import AGENTS
from segue.config.trust import read_named
from segue.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_FENCE: Final = "---"
_LISTS: Final = frozenset({"tools"})


@final
class AgentDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of a subagent holds."""

    name: str
    description: str
    """When to use it: the model that may call it reads this."""
    model: str = ""
    """Empty: the model of the chat that calls it."""
    tools: list[str] | None = None
    """None: the built-in tools that only read."""
    max_turns: int | None = None
    system: str = ""


def find_agent(name: str, start: Path) -> AgentDefinition:
    """Raises UsageError where there is none, or it is not trusted, or is wrong."""
    file, data = read_named(AGENTS, name, start)
    try:
        return parse_agent(data.decode("utf-8-sig"), name)
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"{file}: {error}.", code="config", hint="Correct the file: docs/cli.md") from error


def parse_agent(text: str, name: str) -> AgentDefinition:
    """Raises ValueError or ValidationError. `name`: that of the file, which a `name` in it must repeat."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _FENCE or _FENCE not in (line.strip() for line in lines[1:]):
        raise ValueError("it does not begin with settings between two lines of ---")
    end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE)
    fields = _fields(lines[1:end])
    if fields.setdefault("name", name) != name:
        raise ValueError(f'its name is "{fields["name"]}", and that of the file is "{name}"')
    made = msgspec.convert(
        {**fields, "system": "\n".join(lines[end + 1 :]).strip()}, AgentDefinition, strict=False
    )
    if not made.description.strip():
        raise ValueError("its description is empty")
    return made


def _fields(lines: list[str]) -> dict[str, Any]:
    """`key: value` lines; of a list, names with commas between them, in brackets, or one on each line after a dash."""
    fields: dict[str, Any] = {}
    key = ""
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("- ") and key in _LISTS:
            fields[key] = [*(fields[key] or []), _unquoted(line.lstrip()[2:])]
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not key or line[0].isspace():
            raise ValueError(f"line {number} is not key: value")
        fields[key] = _names(value) if key in _LISTS else _unquoted(value)
    return fields


def _names(value: str) -> list[str]:
    return [_unquoted(name) for name in value.strip("[]").split(",") if name.strip()]


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
