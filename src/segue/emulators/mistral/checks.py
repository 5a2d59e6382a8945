"""Everything that api.mistral.ai refuses in a request, in the order in which it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from segue.emulators.mistral.schemas import mistakes
from segue.emulators.model import tokens
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    size = tokens.count_value(list(messages))
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
    if sum(map(tokens.count, inputs)) > _MAX_INPUT_TOKENS:
        yield Refusal("MIS-17", "Too many tokens overall, split into more batches.", type=kind, code=code)
