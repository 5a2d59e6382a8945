"""The request schema: which fields exist, what they hold, and that nothing else is there (MIS-08, MIS-V24).

A `Check` looks at one value and says what is wrong with it; checks of containers are made of checks of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from segue.emulators.mistral.errors import Location, SchemaRefusal
from segue.emulators.rules import rule

Check: TypeAlias = Callable[[object, Location], Iterator[SchemaRefusal]]


@rule("MIS-V24")
def wrong_value(kind: str, message: str, location: Location, value: object) -> SchemaRefusal:
    return SchemaRefusal(rule="MIS-V24", code=kind, message=message, location=location, input=value)


@rule("MIS-08")
@rule("MIS-09")
def unknown_field(location: Location, value: object) -> SchemaRefusal:
    """A rule of its own (MIS-09) is about `name`, which only a tool message has."""
    return SchemaRefusal(
        rule="MIS-09" if location[-1] == "name" else "MIS-08",
        code="extra_forbidden",
        message="Extra inputs are not permitted",
        location=location,
        input=value,
    )


def text(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, str):
        yield wrong_value("string_type", "Input should be a valid string", location, value)


def flag(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, bool):
        yield wrong_value("bool_type", "Input should be a valid boolean", location, value)


def mapping(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, dict):
        yield wrong_value("dict_type", "Input should be a valid dictionary", location, value)


def number(low: float, high: float | None = None, *, whole: bool = False) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        allowed = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            kind, noun = ("int_type", "integer") if whole else ("float_type", "number")
            yield wrong_value(kind, f"Input should be a valid {noun}", location, value)
        elif value < low:
            yield wrong_value(
                "greater_than_equal", f"Input should be greater than or equal to {low:g}", location, value
            )
        elif high is not None and value > high:
            yield wrong_value(
                "less_than_equal", f"Input should be less than or equal to {high:g}", location, value
            )

    return check


def choice(*allowed: str) -> Check:
    listed = ", ".join(f"'{word}'" for word in allowed[:-1])
    sentence = (
        f"Input should be {listed} or '{allowed[-1]}'" if listed else f"Input should be '{allowed[-1]}'"
    )

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not (isinstance(value, str) and value in allowed):
            yield wrong_value("enum", sentence, location, value)

    return check


def optional(inner: Check) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if value is not None:
            yield from inner(value, location)

    return check


def listing(item: Check) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, list):
            yield wrong_value("list_type", "Input should be a valid list", location, value)
            return
        for index, entry in enumerate(value):
            yield from item(entry, (*location, index))

    return check


def text_or(inner: Check) -> Check:
    """A string, or else what `inner` wants; anything but a string, list or object is blamed for being no string."""

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if isinstance(value, list | dict):
            yield from inner(value, location)
        else:
            yield from text(value, location)

    return check


def record(fields: Mapping[str, Check], *, required: frozenset[str] = frozenset()) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, dict):
            text = "Input should be a valid dictionary or object to extract fields from"
            yield wrong_value("model_attributes_type", text, location, value)
            return
        for name, inner in fields.items():
            if name in value:
                yield from inner(value[name], (*location, name))
            elif name in required:
                yield wrong_value("missing", "Field required", (*location, name), value)
        for name, foreign in value.items():
            if name not in fields:
                yield unknown_field((*location, name), foreign)

    return check


def tagged(tag: str, variants: Mapping[str, Check]) -> Check:
    """A record whose field `tag` says which of the variants it is."""
    expected = ", ".join(f"'{name}'" for name in variants)

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, dict):
            yield from record({})(value, location)
            return
        if tag not in value:
            text = f"Unable to extract tag using discriminator '{tag}'"
            yield wrong_value("union_tag_not_found", text, location, value)
            return
        name: Any = value[tag]
        if not isinstance(name, str) or name not in variants:
            text = (
                f"Input tag '{name}' found using '{tag}' does not match any of the expected tags: {expected}"
            )
            yield wrong_value("union_tag_invalid", text, location, value)
            return
        yield from variants[name](value, (*location, name))

    return check
