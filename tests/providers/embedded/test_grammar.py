from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.embedded.schemas import SCHEMAS, Schema
from providers.embedded.sentences import sentence
from segue.providers.embedded.grammar import Grammar, quoted


def _sentence(schema: Schema, seed: int) -> str:
    grammar = Grammar()
    return sentence(grammar.text(grammar.value(schema)), seed)


@given(schema=SCHEMAS, seed=st.integers(0, 1_000_000))
def test_every_sentence_of_the_grammar_is_json_that_fits_the_schema(schema: Schema, seed: int) -> None:
    said = _sentence(schema, seed)
    jsonschema_rs.validator_for(schema).validate(msgspec.json.decode(said))


@given(low=st.integers(-2000, 2000), width=st.integers(0, 300), seed=st.integers(0, 1_000_000))
def test_bounded_numbers_stay_within_their_bounds(low: int, width: int, seed: int) -> None:
    bounds = {"minimum": low, "maximum": low + width}
    assert low <= int(_sentence({"type": "integer", **bounds}, seed)) <= low + width
    assert low <= float(_sentence({"type": "number", **bounds}, seed)) <= low + width


def test_every_number_of_a_range_can_be_said() -> None:
    said = {_sentence({"type": "integer", "minimum": -3, "maximum": 12}, seed) for seed in range(400)}
    assert said == {str(number) for number in range(-3, 13)}


def test_references_are_written_out_and_cut_where_they_contain_themselves() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/city"}, "tree": {"$ref": "#/$defs/tree"}},
        "required": ["city", "tree"],
        "$defs": {
            "city": {"enum": ["Rome", "Oslo"]},
            "tree": {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}},
        },
    }
    for seed in range(20):
        jsonschema_rs.validator_for(schema).validate(json.loads(_sentence(schema, seed)))


def test_what_holds_for_all_of_several_schemas_is_said_once() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"], "additionalProperties": False},
        ]
    }
    assert set(json.loads(_sentence(schema, 1))) == {"a", "b"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^a+$"},
        {"type": "string", "maxLength": 100_000},
        {"type": "number", "minimum": 0.2, "maximum": 0.7},
        {"type": "array", "uniqueItems": True},
        {"not": {"type": "string"}},
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        True,
        None,
        {"type": "nonsense"},
    ],
)
def test_what_no_grammar_can_say_is_left_open_and_still_json(schema: Any) -> None:
    grammar = Grammar()
    for seed in range(20):
        msgspec.json.decode(sentence(grammar.text(grammar.value(schema)), seed))


def test_a_text_is_quoted_as_the_grammar_spells_it() -> None:
    assert quoted('say "hi"\n\\o/') == '"say \\"hi\\"\\n\\\\o/"'
