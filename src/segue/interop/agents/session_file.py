"""What a reader and a writer get and return: the branch of a tree that is in use, careful access to foreign fields,
and the note that tells a model about the tools of another program."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, final
from uuid import UUID, uuid5

from msgspec import Struct

from segue.dialects.registry import DIALECTS
from segue.interop.agents.session_steps import Step
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


Row: TypeAlias = tuple[int, dict[str, Any]]
"""A line's number and its object."""


@final
class SessionFile(Struct, frozen=True):
    """A session file as a request body, and the line each of its messages came from."""

    form: str
    dialect: str
    body: dict[str, Any]
    lines: tuple[int, ...] = ()
    models: tuple[str | None, ...] = ()
    """For each message the model that wrote it: None if no model did, empty if the file does not name it. None at all:
    the body's model wrote them."""


class Said(NamedTuple):
    """One message of a session, the line where it stands, and who wrote it as in `SessionFile.models`."""

    message: dict[str, Any]
    line: int = 0
    model: str | None = None


def session_of(form: str, dialect: str, said: Sequence[Said], **body: Any) -> SessionFile:
    """What was said in a request of the dialect, with the other fields of its body. Empty ones are left out.

    The request's model is the last that wrote, unless it is among the fields.
    """
    lines, models = tuple(one.line for one in said if one.line), tuple(one.model for one in said)
    beside = {"model": next((name for name in reversed(models) if name), ""), **body}
    kept = {name: value for name, value in beside.items() if value}
    messages = {DIALECTS[dialect].messages_field: [one.message for one in said]}
    return SessionFile(form, dialect, messages | kept, lines, models)


def messages_session(form: str, said: Sequence[Said], **body: Any) -> SessionFile:
    """A session that is read as a request of the Messages wire, which must name a limit."""
    return session_of(form, "anthropic", said, max_tokens=4096, **body)


def current_branch(rows: list[Row], leaf: Row, *, id_key: str, parent_key: str) -> list[Row]:
    """The rows from the root to the leaf. A parent that is not in the file is taken to be the row before."""
    places = {row[id_key]: place for place, (_, row) in enumerate(rows) if isinstance(row.get(id_key), str)}
    place: int | None = rows.index(leaf)
    branch: list[Row] = []
    seen: set[int] = set()
    while place is not None and place not in seen:
        seen.add(place)
        branch.append(rows[place])
        parent = rows[place][1].get(parent_key)
        before = place - 1 if place else None
        place = places.get(parent, before) if isinstance(parent, str) else None
    return branch[::-1]


def fields(value: object) -> dict[str, Any]:
    """An object's fields; empty if it is none."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; empty if it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def json_text(value: object) -> str:
    """A text as it is, anything else as JSON; empty if there is none."""
    return "" if value is None else value if isinstance(value, str) else json_of(value)


def chat_call(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    """A call as the Chat wire has it."""
    function = {"name": text_of(name), "arguments": json_text({} if arguments is None else arguments)}
    return {"id": text_of(call_id), "type": "function", "function": function}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image_block(mime: object, data: object) -> dict[str, Any]:
    """An image as the Messages wire has it."""
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": text_of(mime), "data": text_of(data)},
    }


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
