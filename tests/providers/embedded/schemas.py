"""JSON Schemas of the part that a grammar can say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]
_NAMES = st.text('abcdé "\\\n漢', min_size=1, max_size=6)
_VALUES = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=6)


def _range(draw: st.DrawFn, least: str, most: str, top: int) -> Schema:
    low, high = sorted((draw(st.integers(0, top)), draw(st.integers(0, top))))
    chosen = {least: low, most: high}
    return {key: chosen[key] for key in draw(st.sets(st.sampled_from([least, most])))}


@st.composite
def _numbers(draw: st.DrawFn) -> Schema:
    kind = draw(st.sampled_from(["integer", "number"]))
    low, high = sorted((draw(st.integers(-12_000, 12_000)), draw(st.integers(-12_000, 12_000))))
    bounds = draw(st.sampled_from([(), ("minimum",), ("maximum",), ("minimum", "maximum"), ("exclusive",)]))
    schema: Schema = {"type": kind}
    if "minimum" in bounds:
        schema["minimum"] = low
    if "maximum" in bounds:
        schema["maximum"] = high
    if "exclusive" in bounds:
        schema |= {"exclusiveMinimum": low, "exclusiveMaximum": high + 2}
    return schema


@st.composite
def _strings(draw: st.DrawFn) -> Schema:
    return {"type": "string", **_range(draw, "minLength", "maxLength", 12)}


@st.composite
def _arrays(draw: st.DrawFn, children: st.SearchStrategy[Schema]) -> Schema:
    if draw(st.booleans()):
        return {"type": "array", "items": draw(children), **_range(draw, "minItems", "maxItems", 5)}
    return {"type": "array", "prefixItems": draw(st.lists(children, min_size=1, max_size=3))}


@st.composite
def _objects(draw: st.DrawFn, children: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(_NAMES, children, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    more = draw(st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}]))
    return {"type": "object", "properties": properties, "required": required, **more}


def _under(key: str) -> Callable[[Any], Schema]:
    return lambda held: {key: held}


def _composed(children: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return (
        _arrays(children)
        | _objects(children)
        | children.map(_under("additionalProperties"))
        | st.lists(children, min_size=1, max_size=3).map(_under("anyOf"))
    )


_PLAIN: tuple[Schema, ...] = (
    {},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": "object"},
)
SCHEMAS: st.SearchStrategy[Schema] = st.recursive(
    st.sampled_from(_PLAIN)
    | _numbers()
    | _strings()
    | _VALUES.map(_under("const"))
    | st.lists(_VALUES, min_size=1, max_size=4).map(_under("enum")),
    _composed,
    max_leaves=8,
)
