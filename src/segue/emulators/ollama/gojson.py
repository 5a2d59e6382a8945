"""How Go's JSON decoder complains about values of the wrong type, and about text that is no JSON at all.

Null always passes and leaves a field at its zero value; unknown fields are ignored.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

Check: TypeAlias = Callable[[object, str], Iterator[str]]
"""Takes a value and the path of its field, yields the decoder's sentences."""

_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]*={0,2}")
_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}
_DURATION = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0")


_KINDS: Mapping[type, str] = {bool: "bool", str: "string", int: "number", float: "number", list: "array"}


def kind(value: object) -> str:
    return _KINDS.get(type(value), "object")


def mismatch(value: object, path: str, go_type: str) -> str:
    return f"json: cannot unmarshal {kind(value)} into Go struct field {path} of type {go_type}"


def plain(wanted: str, go_type: str) -> Check:
    """A value of one JSON kind."""

    def check(value: object, path: str) -> Iterator[str]:
        if value is not None and kind(value) != wanted:
            yield mismatch(value, path, go_type)

    return check


STRING = plain("string", "string")
BOOL = plain("bool", "bool")
FLOAT = plain("number", "float64")


def integer(value: object, path: str) -> Iterator[str]:
    if value is None:
        return
    if kind(value) != "number":
        yield mismatch(value, path, "int")
    elif isinstance(value, float):
        yield f"json: cannot unmarshal number {value} into Go struct field {path} of type int"


def listing(item: Check, go_type: str) -> Check:
    def check(value: object, path: str) -> Iterator[str]:
        if value is None:
            return
        if not isinstance(value, list):
            yield mismatch(value, path, go_type)
            return
        for entry in value:
            yield from item(entry, path)

    return check


def struct(fields: Mapping[str, Check], go_type: str) -> Check:
    def check(value: object, path: str) -> Iterator[str]:
        if value is None:
            return
        if not isinstance(value, dict):
            yield mismatch(value, path, go_type)
            return
        for name, inner in fields.items():
            if name in value:
                yield from inner(value[name], f"{path}.{name}")

    return check


def base64(value: object, path: str) -> Iterator[str]:
    """Bytes: base64 without any `data:` in front."""
    if value is None:
        return
    if not isinstance(value, str):
        yield mismatch(value, path, "api.ImageData")
        return
    good = _BASE64.match(value)
    if good is not None and good.end() < len(value):
        yield f"illegal base64 data at input byte {good.end()}"
        return
    try:
        b64decode(value)
    except Base64Error:
        yield f"illegal base64 data at input byte {len(value)}"


def duration(value: object, path: str) -> Iterator[str]:  # noqa: ARG001 — a Check
    """A number of seconds or Go's own notation, e.g. "10m" or "1h30m"."""
    match value:
        case None | int() | float() if not isinstance(value, bool):
            return
        case str() if _DURATION.fullmatch(value):
            return
        case str() if re.fullmatch(r"[-+]?[\d.]+", value):
            yield f'time: missing unit in duration "{value}"'
        case str():
            yield f'time: invalid duration "{value}"'
        case _:
            go_type = {"bool": "bool", "array": "[]interface {}", "object": "map[string]interface {}"}
            yield f"Unsupported type: '{go_type[kind(value)]}'"


def seconds(keep_alive: object) -> float | None:
    """OLL-13: a number is seconds, a string Go's notation for durations."""
    if isinstance(keep_alive, int | float):
        return float(keep_alive)
    if not isinstance(keep_alive, str):
        return None
    pieces = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", keep_alive)
    total = sum(float(amount) * _UNITS[unit] for amount, unit in pieces)
    return -total if keep_alive.startswith("-") else total


def decode(value: object, name: str, go_type: str, fields: Mapping[str, Check]) -> Iterator[str]:
    """What the decoder says about a whole body; `name` is the struct that its sentences begin with."""
    if isinstance(value, dict):
        yield from struct(fields, go_type)(value, name)
    elif value is not None:
        yield f"json: cannot unmarshal {kind(value)} into Go value of type {go_type}"


def not_json(body: bytes) -> str:
    """The decoder's words for text that is no JSON, as far as one can tell from outside."""
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return "missing request body"
    if text[0] in '{["-0123456789tfn':
        return "unexpected EOF"
    return f"invalid character '{text[0]}' looking for beginning of value"
