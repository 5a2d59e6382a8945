"""Tool schemas in each flavour: always accepted, never changed in place, and nothing lost without a word."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.dialects.schemas import flavours
from segue.dialects.schemas.strict import strict_schema
from segue.emulators.anthropic.tools import is_valid
from segue.emulators.kimi import checks
from segue.emulators.mistral import checks as draft_7
from segue.emulators.openai_chat.tools import not_strict

if TYPE_CHECKING:
    from collections.abc import Callable

FLAVOURS = [flavours.object_root, flavours.anthropic, flavours.gemini, flavours.kimi, flavours.ollama]
COMBINATORS = {"oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref"}

_KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "$ref",
        "$defs",
        "description",
        "additionalProperties",
        "format",
        "minimum",
        "exclusiveMinimum",
        "prefixItems",
        "not",
        "pattern",
        "default",
        "nullable",
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 500)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["object", "array", "string", "null", "integer", "a", "", "#", "#/$defs/a", "#/properties/a"]
    )
)
ANY_JSON = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_KEYWORDS | st.sampled_from(["a", "b", "c", "anyOf"]), inner, max_size=5)
    ),
    max_leaves=25,
)
_NODE: st.SearchStrategy[Any] = st.deferred(lambda: _SCHEMA)
_SCHEMA: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["object", "array", "string", "integer", ["string", "null"], ["object", "array"]]
        ),
        "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), _NODE, max_size=3),
        "required": st.lists(st.sampled_from(["a", "b", "z"]), unique=True, max_size=2),
        "items": _NODE,
        "anyOf": st.lists(_NODE, min_size=1, max_size=3),
        "oneOf": st.lists(_NODE, min_size=1, max_size=2),
        "allOf": st.lists(_NODE, min_size=1, max_size=2),
        "enum": st.lists(_SCALARS, min_size=1, max_size=3),
        "const": _SCALARS,
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/nowhere", "https://example.org/x"]),
        "description": st.just("What it is."),
        "additionalProperties": st.booleans() | _NODE,
    },
)
SCHEMAS = st.builds(lambda root, a, b: {**root, "$defs": {"a": a, "b": b}}, _SCHEMA, _SCHEMA, _SCHEMA)
EVERYTHING = ANY_JSON | SCHEMAS
few = settings(max_examples=40)


@given(schema=EVERYTHING)
@few
def test_every_json_value_becomes_a_schema_and_stays_untouched(schema: Any) -> None:
    before = copy.deepcopy(schema)
    for flavour in FLAVOURS:
        spoken, notes = flavour(schema)
        assert schema == before
        assert isinstance(spoken, dict)
        assert all(notes)


@given(schema=EVERYTHING)
@few
def test_what_was_said_once_is_said_again_in_the_same_words(schema: Any) -> None:
    for flavour in FLAVOURS:
        spoken, _ = flavour(schema)
        assert flavour(spoken)[0] == spoken


@given(schema=EVERYTHING)
@few
def test_openai_and_anthropic_get_an_object_without_combinators_that_is_a_valid_schema(schema: Any) -> None:
    for flavour in (flavours.object_root, flavours.anthropic):
        spoken, _ = flavour(schema)
        assert spoken["type"] == "object"
        assert not COMBINATORS & spoken.keys()
        assert is_valid(spoken)
        assert list(draft_7.mistakes(spoken)) == []
        jsonschema.Draft202012Validator.check_schema(spoken)


@given(schema=EVERYTHING)
@few
def test_gemini_gets_only_keywords_it_knows(schema: Any) -> None:
    spoken, _ = flavours.gemini(schema)
    waiting = [spoken]
    while waiting:
        node = waiting.pop()
        assert node.keys() <= flavours.GEMINI_KEYWORDS
        assert isinstance(node.get("type", ""), str)
        assert node.get("type") != "array" or "items" in node
        assert set(node.get("required", ())) <= node.get("properties", {}).keys()
        assert all(isinstance(value, str) and value for value in node.get("enum", ()))
        waiting += [*node.get("properties", {}).values(), *node.get("anyOf", ())]
        waiting += [node["items"]] if "items" in node else []


@given(schema=EVERYTHING)
@few
def test_kimi_gets_moonshots_flavour(schema: Any) -> None:
    spoken, _ = flavours.kimi(schema)
    assert [str(mistake) for mistake in checks.mistakes(spoken)] == []
    assert spoken["type"] == "object"


@given(schema=EVERYTHING)
@few
def test_ollama_gets_what_its_server_can_read(schema: Any) -> None:
    spoken, _ = flavours.ollama(schema)
    assert spoken["type"] == "object"
    assert isinstance(spoken["properties"], dict)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_ordinary_schema_is_said_as_it_is(flavour: Callable[..., Any]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "unit": {"type": "string", "enum": ["C", "F"]},
        },
        "required": ["city"],
    }
    assert flavour(schema) == (schema, [])


def test_a_choice_at_the_root_becomes_one_object_and_says_so() -> None:
    spoken, notes = flavours.object_root(
        {
            "anyOf": [
                {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                {
                    "type": "object",
                    "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
                    "required": ["id", "name"],
                },
            ]
        }
    )
    assert spoken == {
        "type": "object",
        "properties": {
            "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "name": {"type": "string"},
        },
        "required": ["id"],
    }
    assert notes == ["root: the choice between 2 shapes (anyOf) is sent as one shape"]


def test_a_root_that_refers_to_a_definition_is_followed() -> None:
    spoken, notes = flavours.object_root(
        {
            "$ref": "#/$defs/Order",
            "$defs": {"Order": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Order"}}}},
        }
    )
    assert spoken["properties"] == {"next": {"$ref": "#/$defs/Order"}}
    assert spoken["$defs"].keys() == {"Order"}
    assert notes == []


@pytest.mark.parametrize("flavour", [flavours.gemini, flavours.kimi, flavours.ollama])
def test_a_schema_that_contains_itself_is_cut_and_says_so(flavour: Callable[..., Any]) -> None:
    spoken, notes = flavour(
        {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {
                "node": {
                    "type": "object",
                    "description": "A node",
                    "properties": {"left": {"$ref": "#/$defs/node"}},
                }
            },
        }
    )
    tree = spoken["properties"]["tree"]
    assert tree["properties"]["left"] == {"type": "object", "description": "A node"}
    assert any("contains itself" in note for note in notes)


def test_a_schema_that_would_grow_without_end_stays_small() -> None:
    definitions: dict[str, Any] = {
        f"d{level}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{level + 1}"} for side in "abcd"},
        }
        for level in range(30)
    }
    spoken, notes = flavours.ollama(
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    )
    assert len(str(spoken)) < 2_000_000
    assert any("too deep or too large" in note for note in notes)


def test_gemini_is_told_in_words_what_it_has_no_keyword_for() -> None:
    spoken, notes = flavours.gemini(
        {
            "type": "object",
            "properties": {
                "level": {"type": "integer", "enum": [1, 2], "description": "How loud"},
                "when": {"type": ["string", "null"], "format": "uri"},
                "ratio": {"type": "number", "exclusiveMinimum": 0},
                "kind": {"const": "x"},
            },
        }
    )
    assert spoken["properties"] == {
        "level": {"type": "integer", "description": "How loud (one of: [1, 2])"},
        "when": {"type": "string", "nullable": True, "description": '(format: "uri")'},
        "ratio": {"type": "number", "description": "(exclusiveMinimum: 0)"},
        "kind": {"enum": ["x"], "type": "string"},
    }
    assert len(notes) == 3


def test_no_arguments_at_all_are_no_parameters_for_gemini_and_an_empty_object_elsewhere() -> None:
    for nothing in (None, {}, {"type": "object", "properties": {}}):
        assert flavours.gemini(nothing) == ({}, [])
        assert flavours.object_root(nothing) == ({"type": "object", "properties": {}}, [])
        assert flavours.kimi(nothing) == ({"type": "object", "properties": {}}, [])
        assert flavours.ollama(nothing) == ({"type": "object", "properties": {}}, [])


def test_a_property_name_that_anthropic_refuses_is_left_out_and_named() -> None:
    spoken, notes = flavours.anthropic(
        {"type": "object", "properties": {"a b": {"type": "string"}, "c": {}}, "required": ["a b", "c"]}
    )
    assert spoken == {"type": "object", "properties": {"c": {}}, "required": ["c"]}
    assert notes == ["properties.a b: the target refuses this name"]


def test_older_drafts_are_said_in_todays_words() -> None:
    spoken, notes = flavours.object_root(
        {
            "type": "object",
            "properties": {
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
                "size": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            },
        }
    )
    assert spoken["properties"] == {
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "size": {"type": "number", "exclusiveMinimum": 0},
    }
    assert notes == []


def closed(inner: dict[str, Any], **beside: Any) -> dict[str, Any]:
    properties = {"a": inner}
    return {
        "type": "object",
        "properties": properties,
        "required": ["a"],
        "additionalProperties": False,
        **beside,
    }


PLACE = closed({"type": "string"})


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (
            {"$ref": "#/$defs/P", "description": "Where."},
            {"anyOf": [{"$ref": "#/$defs/P"}], "description": "Where."},
        ),
        ({"$ref": "#/$defs/P", "title": "Place", "default": None}, {"$ref": "#/$defs/P"}),
        ({"allOf": [{"$ref": "#/$defs/P"}]}, {"anyOf": [{"$ref": "#/$defs/P"}]}),
        (
            {"oneOf": [PLACE, {"type": "null"}], "discriminator": {"propertyName": "a"}},
            {"anyOf": [PLACE, {"type": "null"}]},
        ),
        ({"enum": ["x", 1]}, {"enum": ["x", 1], "type": ["string", "integer"]}),
        ({"const": True}, {"const": True, "type": "boolean"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "string", "format": "uri", "minLength": 1, "description": "Where."},
            {"type": "string", "description": 'Where. (format: "uri"; minLength: 1)'},
        ),
        ({"type": "integer", "minimum": 1, "default": 3}, {"type": "integer", "minimum": 1}),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "items": False,
                "minItems": 2,
            },
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "minItems": 2},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "description": "(uniqueItems: true)"},
        ),
    ],
)
def test_a_schema_is_written_as_strict_mode_takes_it(given: dict[str, Any], written: dict[str, Any]) -> None:
    schema = closed(given, **{"$defs": {"P": PLACE}})
    before = json.dumps(schema)
    strict, _ = strict_schema(schema)
    assert strict == closed(written, **{"$defs": {"P": PLACE}})
    assert json.dumps(schema) == before
    assert [*not_strict("function 'f'", strict, "p")] == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"description": "Anything."},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"not": {"type": "string"}},
    ],
)
def test_a_schema_that_strict_mode_cannot_have_is_sent_without_it(given: dict[str, Any]) -> None:
    written, why = strict_schema(closed(given))
    assert written is None
    assert why


@given(schema=EVERYTHING)
@few
def test_openai_takes_every_schema_that_is_written_strictly(schema: Any) -> None:
    for one in (schema, closed(schema)):
        written, why = strict_schema(one) if isinstance(one, dict) else (None, ["it is no schema"])
        assert why if written is None else [*not_strict("function 'f'", written, "p")] == []
