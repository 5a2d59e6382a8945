"""Arbitrary values as data that JSON can say."""

from __future__ import annotations

import json
from array import array
from collections import deque
from dataclasses import dataclass
from datetime import date
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from msgspec import Struct
from pydantic import BaseModel

from segue.conversation import json_safe as subject
from segue.conversation.json_safe import (
    MAX_DEPTH,
    encodable,
    is_encodable,
    is_json_safe,
    is_too_deep,
    json_safe,
)
from strategies.histories import CYCLE, plain_values, values


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


class Boxed(Struct):
    held: Any


class Opaque:
    pass


class City(BaseModel):
    name: str


class Failing:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.requirement("REQ-915-038")
@given(values)
def test_anything_at_all_becomes_json(value: Any) -> None:
    json.dumps(json_safe(value), allow_nan=False).encode()


@given(plain_values)
def test_what_json_can_say_stays_as_it_is(value: Any) -> None:
    if is_json_safe(value):
        assert json_safe(value) == value


@pytest.mark.requirement("REQ-915-038")
@given(values)
def test_a_copy_is_always_plain(value: Any) -> None:
    assert is_json_safe(json_safe(value))


@pytest.mark.requirement("REQ-915-038")
def test_a_cycle_is_cut_and_the_original_left_alone() -> None:
    before = repr(CYCLE)
    assert json_safe(CYCLE) == {"name": "cycle", "itself": "(circular)"}
    assert not is_json_safe(CYCLE)
    assert repr(CYCLE) == before


def test_the_same_value_twice_is_no_cycle() -> None:
    shared = [1]
    assert json_safe([shared, shared]) == [[1], [1]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (b"\x00\xff", {"base64": "AP8="}),
        (bytearray(b"a"), {"base64": "YQ=="}),
        (("t", 1), ["t", 1]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({2, 1}), [1, 2]),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "null": "b", "[1, 2]": "c"}),
        (Colour.RED, "red"),
        (Point(1, float("inf")), {"x": 1, "y": "inf"}),
        (Boxed(b"x"), {"held": "eA=="}),
        (date(2026, 11, 15), "2026-11-15"),
        (Opaque(), "(Opaque)"),
        (Boxed(Opaque()), {"held": "(Opaque)"}),
        (City(name="Oslo"), {"name": "Oslo"}),
        ([Boxed(City(name="Oslo"))], [{"held": {"name": "Oslo"}}]),
        (Point(City(name="Oslo"), 1), {"x": {"name": "Oslo"}, "y": 1}),  # type: ignore[arg-type]
        (City, "(ModelMetaclass)"),
        (Path("a/b"), "a/b"),
        (IPv4Address("192.0.2.1"), "192.0.2.1"),
        (Fraction(1, 3), "1/3"),
        (ValueError("why"), "why"),
        (range(3), [0, 1, 2]),
        (deque(["a"]), ["a"]),
        (array("i", [1]), [1]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.keys(), ["a"]),
        (MappingProxyType({"a": {1}}), {"a": [1]}),
        (Failing(), "(Failing)"),
        (len, "(builtin_function_or_method)"),
        (object, "(type)"),
        ("lone \ud83d half", "lone \ufffd half"),
        ({"\udc80": 1}, {"\ufffd": 1}),
        (True, True),
        (2**100, 2**100),
    ],
)
def test_strange_values_are_named_or_copied(value: Any, said: Any) -> None:
    assert json_safe(value) == said


@pytest.mark.requirement("REQ-915-038")
def test_a_number_too_long_for_decimals_is_written_in_hexadecimals() -> None:
    huge = -(2**100_000)
    assert not is_json_safe(huge)
    assert json_safe([huge, {huge: 1}]) == [hex(huge), {json.dumps(hex(huge)): 1}]


def test_depth_is_cut() -> None:
    deep = nested(5000)
    assert not is_json_safe(deep)
    assert "(nested too deeply)" in json.dumps(json_safe(deep))
    assert is_json_safe(nested(subject.MAX_DEPTH))


def test_size_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_VALUES", 10)
    wide = list(range(50))
    assert not is_json_safe(wide)
    assert json_safe(wide)[-1] == "(too large)"
    assert is_json_safe([1, 2, 3])


def test_a_part_that_is_shared_is_written_each_time() -> None:
    value: Any = ["leaf"]
    for _ in range(8):
        value = [value, value]
    assert is_json_safe(value)
    assert json_safe(value) == value


def test_lone_surrogates_are_told_apart_from_text() -> None:
    assert is_encodable("plain")
    assert is_encodable("naïve 🙂")
    assert not is_encodable("\ud800")
    assert encodable("a\ud800b") == "a\ufffdb"
    text = "naïve"
    assert encodable(text) is text


def test_a_surrogate_counts_as_plain_only_where_escapes_are_written() -> None:
    assert not is_json_safe({"key": "\ud800"})
    assert is_json_safe({"key": "\ud800"}, any_text=True)
    assert not is_json_safe({"\ud800": 1})
    assert is_json_safe({"ключ": 1})
    assert not is_json_safe({1: 1})
    assert not is_json_safe([float("nan")])
    assert not is_json_safe([b"x"])


@pytest.mark.parametrize(("depth", "deep"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True)])
def test_what_is_nested_deeper_than_the_limit_is_found_however_it_was_read(depth: int, deep: bool) -> None:
    lists = "[" * depth + "]" * depth
    objects = '{"a":' * depth + "1" + "}" * depth
    for text in (lists, objects):
        assert is_too_deep(text, json.loads(text)) is deep
        assert is_too_deep(text.encode(), json.loads(text)) is deep


@pytest.mark.parametrize(("depth", "deep"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True)])
def test_what_is_wide_and_deep_is_measured_by_its_depth(depth: int, deep: bool) -> None:
    text = "[" * depth + "]" * (depth - 1) + ", []" * MAX_DEPTH + "]"
    assert is_too_deep(text, json.loads(text)) is deep


def test_what_is_wide_is_not_deep() -> None:
    text = json.dumps([[{}]] * (2 * MAX_DEPTH))
    assert not is_too_deep(text, json.loads(text))
    assert not is_too_deep("[" * (2 * MAX_DEPTH), "a text of brackets")
