"""Everything that api.mistral.ai refuses in a request, in the order in which it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.mistral.errors import MODEL, PROMPT, SchemaRefusal
from segue.emulators.mistral.messages import function_names, impossible_chunks, misplaced, tokenizer, unfit
from segue.emulators.mistral.request import (
    listing,
    mapping,
    misshapen,
    number,
    optional,
    record,
    text,
    text_or,
)
from segue.emulators.model import model_facts
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Check: TypeAlias = Callable[[object], Iterator[str]]

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NUMBERS = frozenset({"maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"})
_STRINGS = frozenset(
    {
        "$id",
        "$schema",
        "$ref",
        "$comment",
        "title",
        "description",
        "pattern",
        "format",
        "contentMediaType",
        "contentEncoding",
    }
)
_COUNTS = frozenset({"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"})
_FLAGS = frozenset({"readOnly", "uniqueItems"})
_SCHEMAS = frozenset(
    {"additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not"}
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_SCHEMA_MAPS = frozenset({"definitions", "properties", "patternProperties"})
_MAX_DEPTH = 100


def mistakes(schema: object, depth: int = 0) -> Iterator[str]:
    """What is wrong with the schema, outermost first; nothing when it is valid."""
    if isinstance(schema, bool) or depth > _MAX_DEPTH:
        return
    if not isinstance(schema, dict):
        yield f"{schema!r} is not of type 'object', 'boolean'"
        return
    for keyword, value in schema.items():
        yield from _keyword(keyword, value, depth + 1)


def _keyword(keyword: str, value: object, depth: int) -> Iterator[str]:
    if keyword in _SCHEMAS:
        yield from mistakes(value, depth)
    elif keyword in _SCHEMA_LISTS:
        yield from _schema_list(value, depth)
    elif keyword in _SCHEMA_MAPS:
        yield from _schema_map(value, depth)
    elif keyword == "items":
        yield from _either(value, mistakes(value, depth), _schema_list(value, depth))
    elif keyword == "dependencies":
        yield from _dependencies(value, depth)
    else:
        yield from _plain(keyword, value)


def _plain(keyword: str, value: object) -> Iterator[str]:
    if keyword == "type":
        yield from _type(value)
    elif keyword == "required":
        yield from _names(value)
    elif keyword in _COUNTS:
        yield from _count(value)
    elif keyword in _NUMBERS or keyword == "multipleOf":
        yield from _number(value, positive=keyword == "multipleOf")
    elif keyword in _STRINGS and not isinstance(value, str):
        yield f"{value!r} is not of type 'string'"
    elif keyword in _FLAGS and not isinstance(value, bool):
        yield f"{value!r} is not of type 'boolean'"
    elif keyword in ("enum", "examples") and not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"


def _either(value: object, *attempts: Iterator[str]) -> Iterator[str]:
    if all(next(attempt, None) is not None for attempt in attempts):
        yield f"{value!r} is not valid under any of the given schemas"


def _type(value: object) -> Iterator[str]:
    known = isinstance(value, str) and value in _TYPES
    several = (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(name, str) and name in _TYPES for name in value)
        and len(set(value)) == len(value)
    )
    if not known and not several:
        yield f"{value!r} is not valid under any of the given schemas"


def _names(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"
        return
    for name in value:
        if not isinstance(name, str):
            yield f"{name!r} is not of type 'string'"
            return
    if len(set(value)) != len(value):
        yield f"{value!r} has non-unique elements"


def _count(value: object) -> Iterator[str]:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        yield f"{value!r} is not of type 'integer'"
    elif isinstance(value, int | float) and value < 0:
        yield f"{value!r} is less than the minimum of 0"


def _number(value: object, *, positive: bool) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{value!r} is not of type 'number'"
    elif positive and value <= 0:
        yield f"{value!r} is less than or equal to the minimum of 0"


def _schema_list(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"
    elif not value:
        yield f"{value!r} should be non-empty"
    else:
        for schema in value:
            yield from mistakes(schema, depth)


def _schema_map(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{value!r} is not of type 'object'"
        return
    for schema in value.values():
        yield from mistakes(schema, depth)


def _dependencies(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{value!r} is not of type 'object'"
        return
    for entry in value.values():
        yield from _either(entry, mistakes(entry, depth), _names(entry))


_MAX_INPUTS = 512
_MAX_INPUT_TOKENS = 16_384
_MAX_DIMENSION = 3_072


def complaints(body: object, context: Context) -> Complaints:
    """The rules that a chat request breaks. What does not fit the schema is not read any further."""
    fits = True
    for refusal in misshapen(body):
        fits = fits and refusal.confidence != "H"
        yield refusal
    if not fits or not isinstance(body, dict):
        return
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    yield from impossible_chunks(messages)
    yield from missing_model(body)
    yield from misplaced(messages, context)
    yield from unfit(messages, context)
    yield from tool_definitions(body)
    yield from reasoning_effort(body, context)
    yield from too_long(messages, context)


@rule("MIS-V01")
def missing_model(body: Mapping[str, Any]) -> Complaints:
    if body.get("model") is None:
        yield Refusal("MIS-V01", "Model name parameter is required for serving mode")


@rule("MIS-V22")
def tool_definitions(body: Mapping[str, Any]) -> Complaints:
    for tool in body.get("tools") or ():
        mistake = next(mistakes(tool["function"]["parameters"]), None)
        if mistake is not None:
            yield Refusal("MIS-V22", f"Invalid tool schema: {mistake}")
        yield from function_names(tool["function"]["name"])


@rule("MIS-V23")
@rule("MIS-11", "M")
def reasoning_effort(body: Mapping[str, Any], context: Context) -> Complaints:
    effort = body.get("reasoning_effort")
    if effort is not None and tokenizer(context) < 15:
        yield Refusal("MIS-V23", f"reasoning_effort={effort!r} is not supported for this model")


@rule("MIS-16", "L")
def too_long(messages: Sequence[Mapping[str, Any]], context: Context) -> Complaints:
    limit = context.facts.get("context")
    if limit is None or "MIS-16" not in context.extra_rules:
        return
    size = model_facts.count_value_tokens(list(messages))
    if size > limit:
        yield Refusal(
            "MIS-16",
            f"Prompt contains {size} tokens and 0 draft tokens, "
            f"too large for model with {limit} maximum context length",
            type=PROMPT[0],
            code=PROMPT[1],
            confidence="L",
        )


_EMBEDDING = record(
    {
        "model": text,
        "input": text_or(listing(text)),
        "output_dimension": optional(number(1, _MAX_DIMENSION, whole=True)),
        "output_dtype": optional(text),
        "encoding_format": optional(text),
        "metadata": optional(mapping),
    },
    required=frozenset({"model", "input"}),
)


@rule("MIS-17")
def embedding_complaints(body: object, context: Context) -> Complaints:
    misfits: list[SchemaRefusal] = list(_EMBEDDING(body, ()))
    yield from misfits
    if misfits or not isinstance(body, dict):
        return
    if "embedding" not in context.facts:
        kind, code = MODEL
        yield Refusal("MIS-17", f"Invalid model: {body['model']}", type=kind, code=code)
    inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
    kind, code = PROMPT
    if len(inputs) > _MAX_INPUTS:
        yield Refusal("MIS-17", "Too many inputs in request, split into more batches.", type=kind, code=code)
    if sum(map(model_facts.count_tokens, inputs)) > _MAX_INPUT_TOKENS:
        yield Refusal("MIS-17", "Too many tokens overall, split into more batches.", type=kind, code=code)
