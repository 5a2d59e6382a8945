"""--schema: reads the JSON Schema, and checks an answer against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.errors import ProtocolError, UsageError


def read_schema(source: str) -> dict[str, Any]:
    """A JSON Schema from a file or from the argument itself. Raises UsageError if it is not valid."""
    import jsonschema_rs  # noqa: PLC0415 - slow to load

    text = source if source.lstrip().startswith("{") else Path(source).read_text("utf-8")
    try:
        schema: Any = msgspec.json.decode(text)
        jsonschema_rs.validator_for(schema)
    except (msgspec.DecodeError, ValueError, jsonschema_rs.ValidationError) as error:
        raise _bad_schema(f"is not a JSON Schema: {str(error).splitlines()[0]}") from error
    if not isinstance(schema, dict):
        raise _bad_schema("is not a JSON object.")
    return schema


def _bad_schema(what: str) -> UsageError:
    return UsageError(f"--schema {what}", code="bad_schema", hint="Give a file, or the schema itself.")


def read_answer(text: str, schema: dict[str, Any]) -> Any:
    """The answer as a value. Raises ProtocolError `bad_answer` if it does not match the schema."""
    import jsonschema_rs  # noqa: PLC0415

    try:
        value: Any = msgspec.json.decode(_without_fence(text))
    except msgspec.DecodeError as error:
        raise _bad_answer(f"is not JSON: {error}") from error
    fault = next(iter(jsonschema_rs.validator_for(schema).iter_errors(value)), None)
    if fault is not None:
        raise _bad_answer(f"does not match the schema: {str(fault).splitlines()[0]}")
    return value


def _without_fence(text: str) -> str:
    """Models that cannot be forced to answer in JSON often put it into a Markdown fence."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text


def _bad_answer(what: str) -> ProtocolError:
    return ProtocolError(
        f"The answer {what}.",
        code="bad_answer",
        hint="Ask again, or use a model that supports structured output.",
    )
