"""Fields of a request that stand for what the request itself does not hold: each dialect lists its own, as data.

A thread, a conversation, a file by its id, a container, a cached content, a customer who pays: only whoever keeps them knows what
they hold. Such a field is resolved from what we keep, goes to a provider that may hold it, or is refused in the words of its wire.
It is never dropped like an option: the model would answer to a part of the conversation, and nobody would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.errors import InvalidRequestError, SegueError

Substance: TypeAlias = Literal["history", "summary", "file", "tools", "payer"]
"""What a field stands for. `history`: messages and settings before those of the request, which is only the rest of a conversation
and cannot be planned. `summary`: the same as a part of the request that only its maker can read. `file`: a part of one message.
`tools`: what the model may use, and the place where it does. `payer`: whom only this provider can charge; without the field the
owner of the gateway's key would pay."""

UNNAMED = "?"
"""The name of what a field refers to without naming it."""


@final
class ReferenceField(Struct, frozen=True, kw_only=True):
    """One field of a wire that stands for content, and the refusal of whoever does not hold that."""

    place: str
    """Where it is: `thread`, or `messages[].content[].source` for one in lists."""
    stands_for: Substance
    names: Callable[[Any], str]
    """What a value at this place refers to, null excepted; empty if the value holds all there is."""
    marks: tuple[bytes, ...] = ()
    """For one among the messages: no body refers to anything there without one of them."""
    message: str
    """The refusal in the wire's words; `{name}` and `{path}` are filled in."""
    status: int | None = None
    """Of the refusal; None is the usual one of a request that is not accepted."""
    code: str = "not_held"
    hint: str = ""
    members: Mapping[str, Any] = {}
    """Further members of the wire's error object."""
    fill: Callable[[Any, str], Any] | None = None
    """A value at this place with the words that it stands for, where the gateway has seen them; None: they are not kept."""
    replayed: bool = False
    """Clients that get this refusal send the whole conversation. So the field goes only to the provider whose API this is: one
    that does not know it may answer to the rest alone, and nothing is lost by a refusal."""
    fatal: frozenset[str] = frozenset()
    """Codes of that provider's refusals after which they do not: they get this one then."""


@final
class Reference(Struct, frozen=True, kw_only=True):
    """Something that a request refers to and does not hold."""

    path: str
    name: str
    stands_for: Substance
    refusal: SegueError
    """For a client whose request comes to somebody who does not hold it."""
    replayed: bool = False
    fatal: frozenset[str] = frozenset()
    fill: Callable[[Any, str], Any] | None = None


def references_in(fields: Mapping[str, Any], table: tuple[ReferenceField, ...], wire: str) -> list[Reference]:
    """All that the fields of a request refer to, by the table of its wire."""
    return [_reference(field, path, name, wire) for field in table for path, name in _found(field, fields)]


def holds_mark(body: bytes, marks: Collection[bytes]) -> bool:
    """Whether one of the marks may stand in the bytes of a request."""
    # A name may be written in another way.
    return bool(marks) and (b"\\u00" in body or any(mark in body for mark in marks))


def outer_fields(table: tuple[ReferenceField, ...]) -> frozenset[str]:
    """The outermost fields of a request that stand for content as a whole."""
    return frozenset(field.place for field in table if not set(field.place) & set(".["))


def _reference(field: ReferenceField, path: str, name: str, wire: str) -> Reference:
    refusal = InvalidRequestError(
        field.message.format(name=name, path=path),
        code=field.code,
        path=path,
        status=field.status,
        hint=field.hint,
    )
    refusal.wire, refusal.members = wire, field.members
    return Reference(
        path=path,
        name=name,
        stands_for=field.stands_for,
        refusal=refusal,
        replayed=field.replayed,
        fatal=field.fatal,
        fill=field.fill,
    )


def _found(field: ReferenceField, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    steps = _steps(field.place)
    if steps[0] not in fields:  # nearly always
        return
    for path, value in _values(fields, steps, ""):
        if value is not None and (name := field.names(value)):
            yield path, name


@cache
def _steps(place: str) -> list[str]:
    return place.replace("[]", ".[]").split(".")


def _values(value: Any, steps: list[str], path: str) -> Iterator[tuple[str, Any]]:
    if not steps:
        yield path, value
        return
    step, rest = steps[0], steps[1:]
    if step == "[]":
        if isinstance(value, list):
            for index, held in enumerate(value):
                yield from _values(held, rest, f"{path}[{index}]")
    elif isinstance(value, Mapping) and step in value:
        yield from _values(value[step], rest, f"{path}.{step}" if path else step)


def filled(fields: Mapping[str, Any], reference: Reference, words: str) -> Mapping[str, Any]:
    """The fields of a request with the words that something in them refers to."""
    if reference.fill is None:
        return fields
    steps = reference.path.replace("]", "").replace("[", ".").split(".")
    return _changed(fields, steps, reference.fill, words)  # type: ignore[no-any-return]


def _changed(value: Any, steps: list[str], fill: Callable[[Any, str], Any], words: str) -> Any:
    if not steps:
        return fill(value, words)
    if isinstance(value, list):
        index = int(steps[0])
        return [*value[:index], _changed(value[index], steps[1:], fill, words), *value[index + 1 :]]
    return {**value, steps[0]: _changed(value[steps[0]], steps[1:], fill, words)}


# What values refer to


def text_name(value: Any) -> str:
    """A name is all there is, and anything else is a mistake that only a refusal shows."""
    return value if isinstance(value, str) and value else UNNAMED


def name_unless_empty(value: Any) -> str:
    """The same where an empty text says nothing, as in the JSON of Google's APIs."""
    return "" if value == "" else text_name(value)


def member_name(*members: str) -> Callable[[Any], str]:
    """A value that names something in one of its members."""

    def name(value: Any) -> str:
        held = [value.get(member) for member in members] if isinstance(value, dict) else []
        return next((_written(one) for one in held if one), "")

    return name


def name_or_member(*members: str) -> Callable[[Any], str]:
    """A name by itself, or a value with a member that holds it."""
    inner = member_name(*members)
    return lambda value: (value if isinstance(value, str) else inner(value)) or UNNAMED


def whole_name(value: Any) -> str:
    """A value that stands for something by all of what it is."""
    return _written(value) if value else ""


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
