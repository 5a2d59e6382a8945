"""--schema: the shape that an answer must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.errors import ProtocolError, UsageError


def read_schema(told: str) -> dict[str, Any]:
    """A JSON Schema, written out or in a file. Raises UsageError where it is none."""
    import jsonschema_rs  # noqa: PLC0415 - only who asks for a shape needs it

    text = told if told.lstrip().startswith("{") else Path(told).read_text("utf-8")
    try:
        schema: Any = msgspec.json.decode(text)
        jsonschema_rs.validator_for(schema)
    except (msgspec.DecodeError, ValueError, jsonschema_rs.ValidationError) as error:
        raise UsageError(
            f"--schema is no JSON Schema: {str(error).splitlines()[0]}",
            code="bad_schema",
            hint="Give a file, or the schema itself.",
        ) from error
    if not isinstance(schema, dict):
        raise UsageError(
            "--schema is no JSON object.", code="bad_schema", hint="Give a file, or the schema itself."
        )
    return schema


def read_answer(text: str, schema: dict[str, Any]) -> Any:
    """The value that an answer is. Raises ProtocolError `bad_answer` where it does not follow the schema."""
    import jsonschema_rs  # noqa: PLC0415

    try:
        value: Any = msgspec.json.decode(_unfenced(text))
    except msgspec.DecodeError as error:
        raise _bad(f"is no JSON: {error}") from error
    fault = next(iter(jsonschema_rs.validator_for(schema).iter_errors(value)), None)
    if fault is not None:
        raise _bad(f"does not follow the schema: {str(fault).splitlines()[0]}")
    return value


def _unfenced(text: str) -> str:
    """Models that cannot be made to answer in JSON alone like to put it into a fence."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text


def _bad(what: str) -> ProtocolError:
    return ProtocolError(
        f"The answer {what}.",
        code="bad_answer",
        hint="Ask again, or ask a model that can be held to a schema.",
    )
