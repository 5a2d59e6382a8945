"""Reading JSON as Google's servers do: into protocol buffers, reporting every field that does not fit at once.

Names may be written in camelCase or snake_case, a single value may stand for a list of one, enum values may be
numbers. What comes out is the same message with snake_case names and real lists, without what did not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

Kind = Literal["string", "bytes", "bool", "number", "whole", "struct", "any", "enum", "message", "map"]
Message = Mapping[str, "Field"]
PACKAGE = "type.googleapis.com/google.ai.generativelanguage.v1beta"
DEEPEST = 60


class Field(Struct, frozen=True):
    """One field: `of` names the message or enum type where there is one."""

    kind: Kind
    of: str = ""
    repeated: bool = False


class Fault(Struct, frozen=True):
    """One thing that does not fit; `path` is where, in the server's spelling."""

    path: str
    problem: str
    unknown: bool = False
    """A name that the message does not have, or has in another form."""
    name: str = ""

    @property
    def line(self) -> str:
        if not self.unknown:
            return f"Invalid value at '{self.path}' {self.problem}"
        where = f" at '{self.path}'" if self.path else ""
        return f'Invalid JSON payload received. Unknown name "{self.name}"{where}: {self.problem}'


class Reader:
    """Reads one request; what did not fit is collected in `faults`, in the order it was met."""

    def __init__(self, messages: Mapping[str, Message], enums: Mapping[str, tuple[str, ...]]) -> None:
        self.messages = messages
        self.enums = enums
        self.faults: list[Fault] = []

    def message(self, value: Any, of: str, path: str = "", depth: int = 0) -> dict[str, Any]:
        if not isinstance(value, dict) or depth > DEEPEST:
            self._wrong(path, f"({PACKAGE}.{of})", value)
            return {}
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = snake_case(key)
            field = self.messages[of].get(name)
            if field is None:
                self.faults.append(Fault(path, "Cannot find field.", unknown=True, name=key))
            elif item is not None:
                self._field(found, name, key, field, item, path, depth)
        return found

    def _field(
        self, found: dict[str, Any], name: str, key: str, field: Field, item: Any, path: str, depth: int
    ) -> None:
        where = f"{path}.{name}" if path else name
        if field.repeated and isinstance(item, list):
            read = [self._value(field, part, f"{where}[{index}]", depth) for index, part in enumerate(item)]
            found[name] = [part for part in read if part is not None]
        elif isinstance(item, list) and field.kind not in ("any", "struct"):
            problem = "Proto field is not repeating, cannot start list."
            self.faults.append(Fault(path, problem, unknown=True, name=key))
        else:
            read_one = self._value(field, item, where, depth)
            if read_one is not None:
                found[name] = [read_one] if field.repeated else read_one

    def _value(self, field: Field, value: Any, path: str, depth: int) -> Any:
        match field.kind:
            case "any":
                return value
            case "message":
                return self.message(value, field.of, path, depth + 1)
            case "map":
                return self._map(field, value, path, depth)
            case "struct":
                return self._struct(value, path)
            case "enum":
                return self._enum(field, value, path)
            case _:
                return self._scalar(field.kind, value, path)

    def _map(self, field: Field, value: Any, path: str, depth: int) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self._wrong(path, f"({PACKAGE}.{field.of})", value)
            return None
        return {
            key: self.message(item, field.of, f"{path}[{index}].value", depth + 1)
            for index, (key, item) in enumerate(value.items())
        }

    def _struct(self, value: Any, path: str) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        self._wrong(path, "(type.googleapis.com/google.protobuf.Struct)", value)
        return None

    def _enum(self, field: Field, value: Any, path: str) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.upper() in self.enums[field.of]:
            return value.upper()
        self._wrong(path, f"({PACKAGE}.{field.of})", value)
        return None

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        accepts, name = SCALARS[kind]
        if not accepts(value):
            self._wrong(path, f"({name})", value)
            return None
        if kind == "bytes" and not is_base64(value):
            self.faults.append(Fault(path, f'({name}), Base64 decoding failed for "{value[:200]}"'))
            return None
        return value

    def _wrong(self, path: str, expected: str, value: Any) -> None:
        shown = msgspec.json.encode(value).decode()[:200]
        self.faults.append(Fault(path, f"{expected}, {shown}"))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def is_base64(value: str) -> bool:
    """Either alphabet, with or without padding, and a tail of any length: all were seen accepted."""
    return re.fullmatch(r"[A-Za-z0-9+/_-]*={0,2}", value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or value in ("true", "false")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+(\.\d+)?", value, re.ASCII) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+", value, re.ASCII) is not None
    return _is_number(value) and value % 1 == 0


SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (_is_text, "TYPE_STRING"),
    "bytes": (_is_text, "TYPE_BYTES"),
    "bool": (_is_flag, "TYPE_BOOL"),
    "number": (_is_number, "TYPE_DOUBLE"),
    "whole": (_is_whole, "TYPE_INT32"),
}
