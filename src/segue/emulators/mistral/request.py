"""What a chat request of the hosted API may hold, as one schema: which fields, what they hold, and nothing else (MIS-08, MIS-V24).

A `Check` looks at one value and says what is wrong with it; checks of containers are made of checks of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import structs

from segue.emulators.mistral.errors import Location, SchemaRefusal
from segue.emulators.rules import rule

Check: TypeAlias = Callable[[object, Location], Iterator[SchemaRefusal]]


@rule("MIS-V24")
def wrong_value(kind: str, message: str, location: Location, value: object) -> SchemaRefusal:
    return SchemaRefusal(rule="MIS-V24", code=kind, message=message, location=location, input=value)


@rule("MIS-08")
@rule("MIS-09")
def unknown_field(location: Location, value: object) -> SchemaRefusal:
    """A rule of its own (MIS-09) is about `name`, which only a tool message has."""
    return SchemaRefusal(
        rule="MIS-09" if location[-1] == "name" else "MIS-08",
        code="extra_forbidden",
        message="Extra inputs are not permitted",
        location=location,
        input=value,
    )


def text(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, str):
        yield wrong_value("string_type", "Input should be a valid string", location, value)


def flag(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, bool):
        yield wrong_value("bool_type", "Input should be a valid boolean", location, value)


def mapping(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if not isinstance(value, dict):
        yield wrong_value("dict_type", "Input should be a valid dictionary", location, value)


def number(low: float, high: float | None = None, *, whole: bool = False) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        allowed = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            kind, noun = ("int_type", "integer") if whole else ("float_type", "number")
            yield wrong_value(kind, f"Input should be a valid {noun}", location, value)
        elif value < low:
            yield wrong_value(
                "greater_than_equal", f"Input should be greater than or equal to {low:g}", location, value
            )
        elif high is not None and value > high:
            yield wrong_value(
                "less_than_equal", f"Input should be less than or equal to {high:g}", location, value
            )

    return check


def choice(*allowed: str) -> Check:
    listed = ", ".join(f"'{word}'" for word in allowed[:-1])
    sentence = (
        f"Input should be {listed} or '{allowed[-1]}'" if listed else f"Input should be '{allowed[-1]}'"
    )

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not (isinstance(value, str) and value in allowed):
            yield wrong_value("enum", sentence, location, value)

    return check


def optional(inner: Check) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if value is not None:
            yield from inner(value, location)

    return check


def listing(item: Check) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, list):
            yield wrong_value("list_type", "Input should be a valid list", location, value)
            return
        for index, entry in enumerate(value):
            yield from item(entry, (*location, index))

    return check


def text_or(inner: Check) -> Check:
    """A string, or else what `inner` wants; anything but a string, list or object is blamed for being no string."""

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if isinstance(value, list | dict):
            yield from inner(value, location)
        else:
            yield from text(value, location)

    return check


def record(fields: Mapping[str, Check], *, required: frozenset[str] = frozenset()) -> Check:
    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, dict):
            text = "Input should be a valid dictionary or object to extract fields from"
            yield wrong_value("model_attributes_type", text, location, value)
            return
        for name, inner in fields.items():
            if name in value:
                yield from inner(value[name], (*location, name))
            elif name in required:
                yield wrong_value("missing", "Field required", (*location, name), value)
        for name, foreign in value.items():
            if name not in fields:
                yield unknown_field((*location, name), foreign)

    return check


def tagged(tag: str, variants: Mapping[str, Check]) -> Check:
    """A record whose field `tag` says which of the variants it is."""
    expected = ", ".join(f"'{name}'" for name in variants)

    def check(value: object, location: Location) -> Iterator[SchemaRefusal]:
        if not isinstance(value, dict):
            yield from record({})(value, location)
            return
        if tag not in value:
            text = f"Unable to extract tag using discriminator '{tag}'"
            yield wrong_value("union_tag_not_found", text, location, value)
            return
        name: Any = value[tag]
        if not isinstance(name, str) or name not in variants:
            text = (
                f"Input tag '{name}' found using '{tag}' does not match any of the expected tags: {expected}"
            )
            yield wrong_value("union_tag_invalid", text, location, value)
            return
        yield from variants[name](value, (*location, name))

    return check


# The OpenAPI document of the hosted service stops at 1.5, the open-source validator at 1.
_HOSTED_TEMPERATURE, _STRICT_TEMPERATURE = 1.5, 1.0


def _chunk(*names: str, **fields: Check) -> Check:
    return record({"type": text, **fields}, required=frozenset(names))


def _thoughts(value: object, location: Location) -> Iterator[SchemaRefusal]:
    """MIS-10: on the wire a list of chunks; a plain string is the open-source library's own form."""
    if isinstance(value, str):
        return
    reference = _chunk("reference_ids", reference_ids=listing(optional(_anything)))
    part = tagged("type", {"text": _chunk("text", text=text), "reference": reference})
    yield from listing(part)(value, location)


def _anything(value: object, location: Location) -> Iterator[SchemaRefusal]:  # noqa: ARG001 — a Check
    yield from ()


@rule("MIS-10", "M")
def thoughts_as_string(value: object, location: Location) -> Iterator[SchemaRefusal]:
    if isinstance(value, str):
        yield SchemaRefusal(
            rule="MIS-10",
            confidence="M",
            code="list_type",
            message="Input should be a valid list",
            location=location,
            input=value,
        )


def _thinking(value: object, location: Location) -> Iterator[SchemaRefusal]:
    yield from thoughts_as_string(value, location)
    yield from _thoughts(value, location)


_URL = text_or(record({"url": text, "detail": optional(text)}, required=frozenset({"url"})))
_CHUNKS = listing(
    tagged(
        "type",
        {
            "text": _chunk("text", text=text),
            "image_url": _chunk("image_url", image_url=_URL),
            "input_audio": _chunk("input_audio", input_audio=_anything),
            "audio_url": _chunk("audio_url", audio_url=_URL),
            "document_url": _chunk("document_url", document_url=text, document_name=optional(text)),
            "file": _chunk("file_id", file_id=text),
            "reference": _chunk("reference_ids", reference_ids=listing(_anything)),
            "thinking": _chunk("thinking", thinking=_thinking, closed=flag, signature=optional(text)),
        },
    )
)
_CONTENT = text_or(_CHUNKS)


def _arguments(value: object, location: Location) -> Iterator[SchemaRefusal]:
    """An object is written out as JSON, null counts as no arguments, a string passes unread."""
    if value is not None and not isinstance(value, dict):
        yield from text(value, location)


_CALL = record(
    {
        "id": text,
        "type": choice("function"),
        "function": record(
            {"name": text, "arguments": _arguments}, required=frozenset({"name", "arguments"})
        ),
        # Not in the open-source schema, but the provider's own client sends it (MIS-08).
        "index": number(0, whole=True),
    },
    required=frozenset({"function"}),
)

_MESSAGE = tagged(
    "role",
    {
        "system": record({"role": text, "content": _CONTENT}, required=frozenset({"content"})),
        "user": record({"role": text, "content": _CONTENT}, required=frozenset({"content"})),
        "assistant": record(
            {
                "role": text,
                "content": optional(_CONTENT),
                "tool_calls": optional(listing(_CALL)),
                "prefix": flag,
            }
        ),
        "tool": record(
            {"role": text, "content": _CONTENT, "tool_call_id": optional(text), "name": optional(text)},
            required=frozenset({"content"}),
        ),
    },
)


@rule("MIS-13")
def tool_parameters(value: object, location: Location) -> Iterator[SchemaRefusal]:
    """`parameters` must be there, even for a function without any."""
    function = record(
        {"name": text, "description": text, "parameters": mapping, "strict": flag},
        required=frozenset({"name", "parameters"}),
    )
    for refusal in function(value, location):
        absent = refusal.code == "missing" and refusal.location[-1] == "parameters"
        yield structs.replace(refusal, rule="MIS-13") if absent else refusal


@rule("MIS-12")
def tool_choice(value: object, location: Location) -> Iterator[SchemaRefusal]:
    named = record(
        {"type": choice("function"), "function": record({"name": text}, required=frozenset({"name"}))},
        required=frozenset({"function"}),
    )
    word = choice("auto", "none", "any", "required")
    inner = named if isinstance(value, dict) else word
    for refusal in inner(value, location):
        yield structs.replace(refusal, rule="MIS-12")


def _temperature(value: object, location: Location) -> Iterator[SchemaRefusal]:
    yield from number(0, _HOSTED_TEMPERATURE)(value, location)
    if isinstance(value, int | float) and _STRICT_TEMPERATURE < value <= _HOSTED_TEMPERATURE:
        for refusal in number(0, _STRICT_TEMPERATURE)(value, location):
            yield structs.replace(refusal, confidence="M")


_TOOL = record({"type": choice("function"), "function": tool_parameters}, required=frozenset({"function"}))
_JSON_SCHEMA = record(
    {"name": text, "description": optional(text), "schema": mapping, "strict": flag},
    required=frozenset({"name", "schema"}),
)
_FORMAT = record(
    {"type": choice("text", "json_object", "json_schema"), "json_schema": optional(_JSON_SCHEMA)}
)
_EFFORTS = choice("none", "minimal", "low", "medium", "high", "xhigh", "max")

_BODY = record(
    {
        "model": optional(text),
        "messages": listing(_MESSAGE),
        "temperature": optional(_temperature),
        "top_p": optional(number(0, 1)),
        "max_tokens": optional(number(0, whole=True)),
        "stream": optional(flag),
        "stop": optional(text_or(listing(text))),
        "random_seed": optional(number(0, whole=True)),
        "metadata": optional(mapping),
        "response_format": optional(_FORMAT),
        "tools": optional(listing(_TOOL)),
        "tool_choice": optional(tool_choice),
        "presence_penalty": optional(number(-2, 2)),
        "frequency_penalty": optional(number(-2, 2)),
        "min_tokens": optional(number(0, whole=True)),
        "repetition_penalty": optional(number(0)),
        "top_k": optional(number(-1, whole=True)),
        "logprobs": optional(flag),
        "top_logprobs": optional(number(0, whole=True)),
        "prompt_logprobs": optional(flag),
        "top_prompt_logprobs": optional(number(0, whole=True)),
        "n": optional(number(1, 128, whole=True)),
        "prediction": optional(mapping),
        "parallel_tool_calls": optional(flag),
        "prompt_mode": optional(choice("reasoning")),
        "reasoning_effort": optional(_EFFORTS),
        "guardrails": optional(listing(_anything)),
        "prompt_cache_key": optional(text),
        "service_tier": optional(text),
        "safe_prompt": optional(flag),
    },
    required=frozenset({"messages"}),
)


def misshapen(body: object) -> Iterator[SchemaRefusal]:
    """Everything in the body that the schema does not allow."""
    yield from _BODY(body, ())
