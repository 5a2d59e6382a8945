"""Changes of JSON and bytes that a hostile or broken program could make."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "nul \x00",
    "a" * 3000,
    [],
    {},
    [None],
    [{}],
    ["a"],
    [["a"]],
    {"a": 1},
    {"type": ["a"]},
    {"type": {}},
    {"type": "text"},
    {"text": None},
    {"": {}},
    {"\ud800": "\udfff"},
    ["text", 1, None, {}],
]
WORDS = (
    "type",
    "role",
    "content",
    "id",
    "name",
    "tool_calls",
    "required",
    "properties",
    "model",
    "text",
    "index",
)


def deep(depth: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


def junk() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.sampled_from(JUNK),
        st.builds(deep, st.sampled_from([60, 200, 900]), st.sampled_from(["list", "dict"])),
        st.dictionaries(st.sampled_from(WORDS), st.sampled_from(JUNK), max_size=3),
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any, how: str) -> Any:
    """The value with another one at a place, without it, or with it twice."""
    if not path:
        return new
    first, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest or how == "replace":
        copy[first] = changed(value[first], tuple(rest), new, how)
    elif how == "drop":
        del copy[first]
    elif isinstance(copy, list):
        copy.insert(first, new if how == "add" else copy[first])
    else:
        copy[str(first) + "_" if how == "twice" else "type"] = new
    return copy


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one to four changes."""
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(places(value)))
        how = draw(st.sampled_from(["replace", "replace", "replace", "drop", "add", "twice"]))
        value = changed(value, path, draw(junk()), how)
    return value


def written(value: Any) -> bytes:
    """As a lenient program writes it: lone surrogates and NaN included."""
    return json.dumps(value).encode()


@st.composite
def mutated_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes that are cut, doubled, swapped or changed in a few places."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        if not changed:
            break
        place = draw(st.integers(0, len(changed) - 1))
        end = min(len(changed), place + draw(st.sampled_from([1, 1, 4, 40, 400])))
        match draw(st.sampled_from(["flip", "cut", "double", "set", "insert"])):
            case "flip":
                changed[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del changed[place:end]
            case "double":
                changed[place:place] = changed[place:end]
            case "set":
                changed[place:end] = draw(
                    st.sampled_from([b"\0", b"\xff", b"\n", b"\r\n\r\n", b"[" * 900, b"null"])
                )
            case _:
                changed[place:place] = draw(
                    st.sampled_from([b"data: {}\n\n", b"event: x\n", b": c\n", b"\xf0\x9f", b"{"])
                )
    return bytes(changed)


def cuts() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 200), max_size=8)
