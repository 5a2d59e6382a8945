"""`POST /v1/embeddings`: the limits of OAI-07, and vectors in which texts that share words lie close together."""

from __future__ import annotations

import hashlib
import math
from array import array
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from segue.emulators.model import model_facts
from segue.emulators.openai_chat import errors
from segue.emulators.rules import Complaints, Context, Refusal, rule

INPUTS_MAX, TOKENS_MAX, TOKENS_MAX_SUM = 2048, 8192, 300_000
FORMATS = ("float", "base64")
KEYS = frozenset({"model", "input", "dimensions", "encoding_format", "user"})


def complaints(body: object, context: Context) -> Complaints:
    if not isinstance(body, Mapping):
        yield errors.wrong_type("OAI-07", "body", "an object", body)
        return
    yield from wrong_parameters(body)
    yield from wrong_input(body)
    yield from wrong_model(body, context)
    yield from dimensions_refused(body, context)
    yield from input_too_long(body)


@rule("OAI-07", "H")
def wrong_parameters(body: Mapping[str, Any]) -> Complaints:
    for key in body:
        if key not in KEYS:
            yield errors.unknown("OAI-07", key)
    if not isinstance(body.get("model"), str):
        yield Refusal("OAI-07", "you must provide a model parameter")
    size = body.get("dimensions")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        yield errors.wrong_type("OAI-07", "dimensions", "an integer", size)
    elif size is not None and size < 1:
        yield Refusal("OAI-07", f"{size} is less than the minimum of 1 - 'dimensions'")
    wanted = body.get("encoding_format")
    if wanted is not None and wanted not in FORMATS:
        yield errors.wrong_value("OAI-07", "encoding_format", str(wanted), FORMATS)


@rule("OAI-07", "H")
def wrong_input(body: Mapping[str, Any]) -> Complaints:
    if not _is_input(body.get("input")):
        yield Refusal(
            "OAI-07",
            "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.",
        )


def _is_input(value: object) -> bool:
    if isinstance(value, str):
        return bool(value)
    if not isinstance(value, list) or not 0 < len(value) <= INPUTS_MAX:
        return False
    if all(isinstance(item, str) and item for item in value):
        return True
    return _are_tokens(value) or all(_are_tokens(item) and item for item in value)


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )


@rule("RESP-51", "H")
def wrong_model(body: Mapping[str, Any], context: Context) -> Complaints:
    model = body.get("model")
    if isinstance(model, str) and "embedding" not in context.facts:
        yield errors.no_such_model(model)


@rule("OAI-07", "H")
def dimensions_refused(body: Mapping[str, Any], context: Context) -> Complaints:
    size, most = body.get("dimensions"), context.facts.get("embedding", 3072)
    if not isinstance(size, int):
        return
    if not context.facts.get("dimensions", True):
        yield Refusal("OAI-07", "This model does not support specifying dimensions.")
    elif size > most:
        yield Refusal(
            "OAI-07",
            f"Invalid value for 'dimensions' = {size}. Must be less than or equal to {most}.",
            param="dimensions",
        )


@rule("OAI-07", "H")
def input_too_long(body: Mapping[str, Any]) -> Complaints:
    if not _is_input(body.get("input")):
        return
    sizes = [_size(item) for item in inputs_of(body["input"])]
    longest = max(sizes)
    if longest > TOKENS_MAX:
        yield Refusal(
            "OAI-07",
            f"This model's maximum context length is {TOKENS_MAX} tokens, however you requested {longest} "
            f"tokens ({longest} in your prompt; 0 for the completion). Please reduce your prompt; or completion length.",
        )
    if sum(sizes) > TOKENS_MAX_SUM:
        yield Refusal(
            "OAI-07",
            f"Requested {sum(sizes)} tokens, max {TOKENS_MAX_SUM} tokens per request",
            code="max_tokens_per_request",
        )


def inputs_of(value: Any) -> list[Any]:
    if isinstance(value, str) or (value and isinstance(value[0], int)):
        return [value]
    return list(value)


def _size(item: str | list[int]) -> int:
    return model_facts.count_tokens(item) if isinstance(item, str) else len(item)


def embedding(item: str | list[int], size: int) -> array[float]:
    """A unit vector; each word pushes a few directions that depend on the word alone."""
    vector = array("f", bytes(4 * size))
    words = item.lower().split() if isinstance(item, str) else [str(token) for token in item]
    for word in words or [""]:
        code = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        for start in range(0, 16, 4):
            place = int.from_bytes(code[start : start + 4], "little") % size
            vector[place] += 1.0 if code[16 + start] & 1 else -1.0
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return array("f", [x / length for x in vector])


def whole(body: Mapping[str, Any], context: Context) -> dict[str, Any]:
    inputs = inputs_of(body["input"])
    size = body.get("dimensions") or context.facts.get("embedding", 1536)
    vectors = [embedding(item, size) for item in inputs]
    return listed(vectors, body, context, tokens=sum(_size(item) for item in inputs))


def listed(
    vectors: Sequence[array[float]], body: Mapping[str, Any], context: Context, *, tokens: int
) -> dict[str, Any]:
    in_base64 = body.get("encoding_format") == "base64"
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": b64encode(vector.tobytes()).decode() if in_base64 else vector.tolist(),
            }
            for index, vector in enumerate(vectors)
        ],
        "model": context.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
