"""Bad arguments are told to the model so that it can correct them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import ToolCall
from segue.conversation.tools import ToolSpec
from segue.emulators.server import serve
from segue.tools import arguments
from segue.tools.arguments import arguments_in, problem_with

SPEC = ToolSpec(
    "read",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "ranges": {
                "type": "array",
                "items": {"type": "object", "properties": {"from": {"type": "integer"}}},
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)


def call(value: Any = None, raw: str = "") -> ToolCall:
    return ToolCall("c1", "read", value, raw)


@pytest.mark.parametrize(
    "given_call", [call({"path": "a"}), call({"path": "a", "ranges": [{"from": 1}]}, "ignored")]
)
def test_good_arguments_are_no_problem(given_call: ToolCall) -> None:
    assert problem_with(given_call, SPEC) == ""


def test_no_arguments_are_an_empty_object() -> None:
    assert arguments_in(call()) == {}
    assert problem_with(call(), ToolSpec("ping")) == ""
    assert "path" in problem_with(call(), SPEC)


def test_every_problem_is_told_with_its_place() -> None:
    problem = problem_with(call({"ranges": [{}, {"from": "one"}], "pth": 1}), SPEC)
    assert 'ranges[1].from: "one" is not of type "integer"' in problem
    assert '"path" is a required property' in problem
    assert "'pth' was unexpected" in problem
    assert problem.endswith("Correct them and call it again.")


def test_many_problems_are_told_in_part() -> None:
    problem = problem_with(call({"path": "a", "ranges": ["x" * 10_000] * 50}), SPEC)
    assert problem.count("\n- ") == arguments.MAX_REPORTED + 1
    assert "and more" in problem
    assert len(problem) < 5_000


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (call(None, '{"path": "a'), "not JSON"),
        (call(None, "null"), "null, not an object"),
        (call("text", '"text"'), "a text, not an object"),
        (call([1], "[1]"), "a list, not an object"),
        (call(3, "3"), "a number, not an object"),
        (call(True, "true"), "true or false, not an object"),
    ],
)
def test_what_is_no_object_is_told_also_without_a_schema(bad: ToolCall, said: str) -> None:
    for spec in (SPEC, ToolSpec("read")):
        assert said in problem_with(bad, spec)
        assert 'Call "read" again' in problem_with(bad, spec)


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"properties": {"a": {"pattern": "(?<"}}}, {"$ref": "#/$defs/gone"}]
)
def test_a_broken_schema_checks_nothing(schema: dict[str, Any]) -> None:
    assert problem_with(call({"a": 1}), ToolSpec("t", parameters=schema)) == ""


def test_a_schema_elsewhere_is_never_fetched() -> None:
    with serve() as served:
        for address in (f"{served.base_url}/openai/v1/models", "file:///etc/hostname"):
            assert problem_with(call({"a": 1}), ToolSpec("t", parameters={"$ref": address})) == ""
        assert list(served.emulator.log) == []


def test_the_same_schema_is_compiled_once() -> None:
    problem_with(call({"path": "a"}), SPEC)
    known = arguments._validators[id(SPEC.parameters)]
    problem_with(call({"path": "b"}), ToolSpec("other name", parameters=SPEC.parameters))
    assert arguments._validators[id(SPEC.parameters)] is known


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(_values, st.text(st.characters()))
def test_no_arguments_whatever_they_are_make_the_check_fail(value: Any, raw: str) -> None:
    problem = problem_with(call(value, raw), SPEC)
    problem.encode()
    assert problem or arguments_in(call(value, raw)) is not None
