"""What a reader gets and returns, the branch of a tree that is in use, and careful access to foreign fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from msgspec import Struct

from segue.dialects.registry import DIALECTS
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
