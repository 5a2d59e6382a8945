"""Arbitrary values as data that JSON can express.

Arguments and results may hold anything a program can build: cycles, NaN, bytes, lone surrogates, objects of any
class. The stored value is never touched; what JSON cannot express is copied into a form it can.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence, Set, ValuesView
from itertools import islice
from typing import Any

import msgspec

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
MAX_BITS = 10_000
"""Of an integer: Python itself refuses to write much longer ones in decimals."""


def is_too_deep(text: str | bytes, value: Any) -> bool:
    """Whether a value read from this text nests deeper than `MAX_DEPTH`: much that walks through values would fail."""
    brackets = (
        text.count("{") + text.count("[") if isinstance(text, str) else text.count(b"{") + text.count(b"[")
    )
    return brackets > MAX_DEPTH and nests_too_deep(value)


def nests_too_deep(value: Any) -> bool:
    """The same of a value whose text is not at hand: all that is in it is looked at."""
    waiting = [(value, 1)] if isinstance(value, dict | list) else []
    while waiting:
        held, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return True
        inner = held.values() if type(held) is dict else held
        waiting.extend((one, depth + 1) for one in inner if type(one) in (dict, list))
    return False


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8 at all: lone surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodable(text: str) -> str:
    """The text with every lone surrogate replaced, and untouched if it has none."""
    return text if is_encodable(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable(text: str) -> str:
    """A text that any database can hold: neither half characters nor NUL."""
    return encodable(text).replace("\0", "\ufffd")


def is_json_safe(value: Any, *, any_text: bool = False) -> bool:
    """Whether JSON can express this value exactly. `any_text`: lone surrogates count as encodable, in escapes."""
    waiting = [(value, 0)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return True
        held, depth = waiting.pop()
        kind = type(held)
        if kind is str:
            if not any_text and not is_encodable(held):
                return False
        elif kind in (dict, list, tuple) and depth < MAX_DEPTH:
            if kind is dict:
                if not all(type(key) is str for key in held):
                    return False
                waiting.extend((key, MAX_DEPTH) for key in held if not key.isascii())
                held = held.values()
            waiting.extend((inner, depth + 1) for inner in held)
        elif kind is int:
            if held.bit_length() > MAX_BITS:
                return False
        elif not (math.isfinite(held) if kind is float else held is None or kind is bool):
            return False
    return False


def json_safe(value: Any) -> Any:
    """A copy that JSON can express: cycles, depths and sizes are cut, strange values are named."""
    return _Copy().of(value, ())


def ensure_json_safe(value: Any, *, any_text: bool = False) -> Any:
    """The value itself if JSON can express it, else a copy that it can. `any_text` as in `is_json_safe`."""
    return value if is_json_safe(value, any_text=any_text) else json_safe(value)


class _Copy:
    def __init__(self) -> None:
        self.left = MAX_VALUES

    def of(self, value: Any, path: tuple[int, ...]) -> Any:
        self.left -= 1
        if self.left < 0:
            return "(too large)"
        if value is None or type(value) is bool:
            return value
        if type(value) is int:
            return value if value.bit_length() <= MAX_BITS else hex(value)
        if isinstance(value, str):
            return encodable(str(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else repr(float(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"base64": b64encode(bytes(value)).decode()}
        if isinstance(value, (dict, list, tuple, set, frozenset)):
            return self.container(value, path)
        return self.object(value, path)

    def container(self, value: Any, path: tuple[int, ...]) -> Any:
        if id(value) in path:
            return "(circular)"
        if len(path) >= MAX_DEPTH:
            return "(nested too deeply)"
        inner = (*path, id(value))
        if isinstance(value, dict):
            return {self.key(key): self.of(held, inner) for key, held in value.items()}
        # The order of a set differs from process to process; what is sent must not.
        members = sorted(value, key=_order) if isinstance(value, (set, frozenset)) else value
        return [self.of(held, inner) for held in members]

    def key(self, key: Any) -> str:
        return encodable(key) if isinstance(key, str) else json.dumps(self.of(key, ()))

    def object(self, value: Any, path: tuple[int, ...]) -> Any:
        """Structs, dataclasses, enums, dates and the like as msgspec sees them, with what it does not know in its own words."""
        try:
            known = msgspec.to_builtins(value, enc_hook=_in_its_own_way)
        except Exception:  # the object's own code runs here
            return f"({type(value).__name__})"
        return self.of(known, (*path, id(value)))


def _in_its_own_way(value: Any) -> Any:
    """A model of pydantic as it dumps itself, mappings and sequences of any class, and the text of an object that has one; else the
    name of the class."""
    kind = type(value)
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json")
    if callable(getattr(kind, "tolist", None)):  # arrays, and their numbers
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, Set, ValuesView)):
        return list(islice(value, MAX_VALUES))
    text = "" if isinstance(value, type) else str(value)
    # What is in angle brackets is for debuggers, mostly with an address that differs from process to process.
    return f"({kind.__name__})" if not text or text.startswith("<") else text


def _order(value: Any) -> str:
    return json.dumps(json_safe(value), sort_keys=True)
