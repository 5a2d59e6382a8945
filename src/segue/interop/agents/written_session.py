"""What a writer gets and returns, and the note that tells a model about the tools of another program."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, final
from uuid import UUID, uuid5

from msgspec import Struct

from segue.interop.agents.session_steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@final
class SessionPlan(Struct, frozen=True, kw_only=True):
    """A session that is to be written."""

    id: str
    """A UUID that no session has."""
    folder: str
    """The working folder in which it is to be resumed."""
    title: str
    steps: tuple[Step, ...]
    note: str = ""
    """A note that the model reads first; empty if its tools are those of the history."""
    began: datetime
    model: str = ""
    """The model that wrote last; empty if that is not known."""
    answers: str = ""
    """`provider/model` that answers next, for a program that stores it with the session; empty if it is not known."""


class SessionWriter(Protocol):
    """Rows of a program's session file."""

    def head(self, plan: SessionPlan) -> list[dict[str, Any]]:
        """The rows before the first step."""
        ...

    def rows(self, plan: SessionPlan, after: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of the steps. `after`: those that stand before them in the file."""
        ...

    def again(self, rows: list[dict[str, Any]], plan: SessionPlan) -> list[dict[str, Any]]:
        """Rows of an earlier session of the same program, as the beginning of this one."""
        ...

    def file(self, plan: SessionPlan, home: Path) -> Path:
        """Where the program looks for it. `home`: the folder of its sessions."""
        ...


def as_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(
        [
            json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
            for row in rows
        ]
    )


def moments(began: datetime) -> Iterator[datetime]:
    """Strictly rising times: programs sort by them."""
    number = 0
    while True:
        yield began + timedelta(milliseconds=number)
        number += 1


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def part_id(plan: SessionPlan, *parts: object) -> str:
    """The UUID of a row: the same in every process."""
    return str(uuid5(UUID(plan.id), "/".join(map(str, parts))))


def short_id(plan: SessionPlan, *parts: object) -> str:
    return part_id(plan, *parts).replace("-", "")


def folder_name(folder: str) -> str:
    """A folder's path as Claude Code and Qwen Code write it in a name."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in folder)
    if len(name) <= _LONGEST_NAME:
        return name
    number = 0
    for letter in folder:
        number = (number * 31 + ord(letter)) & 0xFFFFFFFF
    signed = number - 0x1_0000_0000 if number & 0x8000_0000 else number
    return f"{name[:_LONGEST_NAME]}-{_base36(abs(signed))}"


_LONGEST_NAME = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    text = _DIGITS[number % 36]
    while number := number // 36:
        text = _DIGITS[number % 36] + text
    return text
