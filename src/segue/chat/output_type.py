"""The type that an answer must have: its JSON Schema, and the checked value of an answer.

A type is a pydantic model, a dataclass, a TypedDict, a Struct or anything else that msgspec or pydantic can describe;
a JSON Schema stands for itself. Nothing of pydantic is imported unless a type of it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import msgspec
from msgspec import Struct, structs

from segue.errors import UsageError
from segue.providers.requests.text_requests import schema_in_words
from segue.text.partial_json import NOTHING, PartialJson
from segue.tools.value_types import Misfit, value_type

ANSWER_CORRECTED = "answer_corrected"
"""The code of the warning that an answer did not have the type, and is asked for once more."""
_ANSWER = "answer"
"""The one property of the object that a type which is no object is put into: providers want an object."""


class OutputMismatch(ValueError):  # noqa: N818 - it is asked about, and never reaches a user
    """Why a text does not have the type."""


@final
class OutputType(Struct, frozen=True):
    """What an answer must be."""

    schema: dict[str, Any]
    """Sent to the provider."""
    read: Callable[[str], Any]
    """The value of a text. Raises OutputMismatch."""
    wrapped: bool = False
    """Whether the value is the one property of an object."""

    def partial(self) -> PartialOutputReader:
        """Reads an answer of the type while it is written."""
        return PartialOutputReader(wrapped=self.wrapped)


@final
class PartialOutputReader:
    """The values of an answer that is being written."""

    def __init__(self, *, wrapped: bool) -> None:
        self._json = PartialJson()
        self._wrapped = wrapped

    def feed(self, more: str) -> Any:
        """NOTHING where there is nothing new."""
        value = self._json.feed(more)
        if not self._wrapped or not isinstance(value, dict):
            return value
        return value.get(_ANSWER, NOTHING)


def output_type(source: Any) -> OutputType:
    """Raises UsageError for what has no JSON Schema."""
    if isinstance(source, dict):
        return _from_schema(source)
    try:
        return _from_type(source)
    except (TypeError, ValueError, RecursionError, NameError, AttributeError) as error:
        raise UsageError(
            f"{getattr(source, '__name__', source)!s} cannot be the type of an answer: {str(error).splitlines()[0]}",
            code="bad_output_type",
            path="output",
            hint="Give a pydantic model, dataclass, TypedDict, msgspec Struct or a JSON Schema.",
        ) from error


def correction_of(output: OutputType | None, mismatch: OutputMismatch) -> str:
    wanted = "Answer again." if output is None else schema_in_words(output.schema)
    return f"Your answer {mismatch}. {wanted}"


def second_request(output: OutputType | None, answer: str) -> str:
    """What asks again after an answer that came whole and could not be used. `output`: the type that it must have now."""
    if output is not None:
        try:
            output.read(answer)
        except OutputMismatch as mismatch:
            return correction_of(output, mismatch)
    return "Your last answer could not be used. Answer again."


def _from_schema(schema: dict[str, Any]) -> OutputType:
    import jsonschema_rs  # noqa: PLC0415 - slow to load

    try:
        validator = jsonschema_rs.validator_for(schema)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise UsageError(
            f"This is not a JSON Schema: {str(error).splitlines()[0]}",
            code="bad_schema",
            path="output",
            hint="Correct it, or give a type instead.",
        ) from error

    def read(text: str) -> Any:
        value = _decoded(text)
        fault = next(iter(validator.iter_errors(value)), None)
        if fault is not None:
            raise OutputMismatch(f"does not match the schema: {str(fault).splitlines()[0]}")
        return value

    return OutputType(schema, read)


def _from_type(source: Any) -> OutputType:
    if isinstance(source, str):
        raise TypeError("it is a text, not a type")
    value = value_type(source, strict=True)
    schema, definitions = value.schema, value.definitions
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        root = definitions[name]
        if not _mentions(definitions, name):
            definitions = {other: held for other, held in definitions.items() if other != name}
        schema = {**root, **{key: inner for key, inner in schema.items() if key != "$ref"}}

    def convert(held: Any) -> Any:
        try:
            return value.convert(held)
        except Misfit as misfit:
            place, why = misfit.problems[0]
            raise OutputMismatch(f"does not match its type: {f'{place}: ' if place else ''}{why}") from misfit

    made = _wrapped({**schema, **({"$defs": definitions} if definitions else {})}, convert)
    return structs.replace(made, read=partial(_plain_text, made.read)) if source is str else made


def _plain_text(read: Callable[[str], Any], text: str) -> Any:
    """Where a text is wanted, one that is not put into JSON is one, too."""
    try:
        return read(text)
    except OutputMismatch:
        return text


def _mentions(components: dict[str, Any], name: str) -> bool:
    return f'"#/$defs/{name}"'.encode() in msgspec.json.encode(components)


def _wrapped(schema: dict[str, Any], convert: Callable[[Any], Any]) -> OutputType:
    closed = _closed(schema)
    if closed.get("type") == "object":
        return OutputType(closed, lambda text: convert(_decoded(text)))
    definitions = closed.pop("$defs", None)
    whole = {
        "type": "object",
        "properties": {_ANSWER: closed},
        "required": [_ANSWER],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }

    def read(text: str) -> Any:
        value = _decoded(text)
        held = isinstance(value, dict) and value.keys() == {_ANSWER}
        return convert(value[_ANSWER] if held else value)

    return OutputType(whole, read, wrapped=True)


def _closed(schema: Any) -> Any:
    """Every object with all its properties required and no others: what providers hold their models to."""
    if isinstance(schema, list):
        return [_closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    written = {
        key: {name: _closed(inner) for name, inner in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else value
        if key in ("enum", "const", "examples", "required")
        else _closed(value)
        for key, value in schema.items()
        if key not in ("default", "discriminator")
    }
    if isinstance(written.get("properties"), dict):
        written["required"] = list(written["properties"])
        written.setdefault("additionalProperties", False)
    return written


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(_without_fence(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise OutputMismatch(f"is not JSON: {error}") from error


def _without_fence(text: str) -> str:
    """Models that cannot be forced to answer in JSON often put it into a Markdown fence."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text
