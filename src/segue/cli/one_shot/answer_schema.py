"""--schema: the JSON Schema of the answer, from a file or from the argument itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.errors import UsageError


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
