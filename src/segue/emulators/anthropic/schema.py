"""A small description language for JSON shapes, and the words the API uses when a value does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from segue.emulators.rules import Complaints, Refusal


class Anything(Struct, frozen=True):
    """Not looked at."""


class Flag(Struct, frozen=True):
    """True or false."""


class Number(Struct, frozen=True):
    """A number, whole when asked, within bounds when given."""

    whole: bool = False
    least: float | None = None
    most: float | None = None


class String(Struct, frozen=True):
    """A string, perhaps of a pattern or out of a list."""

    pattern: str = ""
    most: int | None = None
    choices: tuple[str, ...] = ()
    betas: Mapping[str, str] = field(default_factory=dict)
    """Choices that exist only for those who send this value in `anthropic-beta`."""
    rule: str = "ANT-04"


class Dictionary(Struct, frozen=True):
    """An object with any keys."""

    rule: str = "ANT-04"


class Items(Struct, frozen=True):
    """A list of values of one shape."""

    of: Shape


class TextOr(Struct, frozen=True):
    """A plain string, or the longer form."""

    other: Shape


class Record(Struct, frozen=True):
    """An object with known keys. A key that is not required may also be null."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    betas: Mapping[str, str] = field(default_factory=dict)
    """Keys that exist only for those who send this value in `anthropic-beta`."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rule ids of missing keys, where the rulebook has a rule of its own for them."""


class Tagged(Struct, frozen=True):
    """One of several records, distinguished by `type`. Its name becomes part of the path."""

    variants: Mapping[str, Shape]
    default: str | None = None
    unchecked: str = ""
    """A pattern of further tags whose content is not looked at."""
    betas: Mapping[str, str] = field(default_factory=dict)
    rule: str = "ANT-04"


Shape: TypeAlias = Anything | Flag | Number | String | Dictionary | Items | TextOr | Record | Tagged
Offers: TypeAlias = Callable[[str], bool]
"""Whether the client has switched on a beta."""


def _refuse(path: str, problem: str, rule: str = "ANT-04") -> Refusal:
    return Refusal(rule, f"{path}: {problem}")


def faults(shape: Shape, value: Any, path: str, offers: Offers) -> Complaints:
    """Every place where the value does not have the shape, in the order of the API's own validation."""
    match shape:
        case Record():
            yield from _record_faults(shape, value, path, offers)
        case Tagged():
            yield from _tagged_faults(shape, value, path, offers)
        case Items(of):
            if not isinstance(value, list):
                yield _refuse(path, "Input should be a valid list")
                return
            for index, item in enumerate(value):
                yield from faults(of, item, f"{path}.{index}", offers)
        case TextOr(other):
            if not isinstance(value, str):
                yield from faults(other, value, path, offers)
        case String():
            yield from _string_faults(shape, value, path, offers)
        case _:
            yield from _plain_faults(shape, value, path)


def _plain_faults(shape: Shape, value: Any, path: str) -> Complaints:
    match shape:
        case Number():
            yield from _number_faults(shape, value, path)
        case Flag() if not isinstance(value, bool):
            yield _refuse(path, "Input should be a valid boolean")
        case Dictionary(rule) if not isinstance(value, dict):
            yield _refuse(path, "Input should be a valid dictionary", rule)
        case _:
            return


def _string_faults(shape: String, value: Any, path: str, offers: Offers) -> Complaints:
    if shape.choices:
        choices = [choice for choice in shape.choices if offers(shape.betas.get(choice, ""))]
        if value not in choices:
            yield _refuse(path, f"Input should be {_alternatives(choices)}", shape.rule)
    elif not isinstance(value, str):
        yield _refuse(path, "Input should be a valid string", shape.rule)
    elif shape.most is not None and len(value) > shape.most:
        yield _refuse(path, f"String should have at most {shape.most} characters", shape.rule)
    elif shape.pattern and not re.fullmatch(shape.pattern.strip("^$"), value, re.ASCII):
        yield _refuse(path, f"String should match pattern '{shape.pattern}'", shape.rule)


def _number_faults(shape: Number, value: Any, path: str) -> Complaints:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _refuse(path, f"Input should be a valid {'integer' if shape.whole else 'number'}")
    elif shape.whole and value % 1 != 0:
        yield _refuse(path, "Input should be a valid integer, got a number with a fractional part")
    elif shape.least is not None and value < shape.least:
        yield _refuse(path, f"Input should be greater than or equal to {shape.least:g}")
    elif shape.most is not None and value > shape.most:
        yield _refuse(path, f"Input should be less than or equal to {shape.most:g}")


def _record_faults(shape: Record, value: Any, path: str, offers: Offers) -> Complaints:
    if not isinstance(value, dict):
        # Recorded from the real API for a message that is a bare string.
        problem = "Input does not match the expected shape." if path else "Input should be a valid dictionary"
        yield _refuse(path or "body", problem)
        return
    prefix = f"{path}." if path else ""
    for key in shape.required:
        if key not in value:
            yield _refuse(f"{prefix}{key}", "Field required", shape.rules.get(key, "ANT-04"))
    for key, item in value.items():
        known = shape.fields.get(key)
        if known is None or not offers(shape.betas.get(key, "")):
            yield _refuse(f"{prefix}{key}", "Extra inputs are not permitted")
        elif item is not None or key in shape.required:
            yield from faults(known, item, f"{prefix}{key}", offers)


def _tagged_faults(shape: Tagged, value: Any, path: str, offers: Offers) -> Complaints:
    if not isinstance(value, dict):
        yield _refuse(path, "Input should be a valid dictionary or object to extract fields from")
        return
    tag = value.get("type") if value.get("type") is not None else shape.default
    if tag is None:
        yield _refuse(path, "Unable to extract tag using discriminator 'type'")
        return
    offered = {name for name in shape.variants if offers(shape.betas.get(name, ""))}
    if isinstance(tag, str) and tag in offered:
        yield from faults(shape.variants[tag], value, f"{path}.{tag}", offers)
    elif not (isinstance(tag, str) and shape.unchecked and re.fullmatch(shape.unchecked, tag)):
        expected = ", ".join(f"'{name}'" for name in sorted(offered))
        problem = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
        yield _refuse(path, problem, shape.rule)


def _alternatives(choices: Sequence[str]) -> str:
    quoted = [f"'{choice}'" for choice in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
