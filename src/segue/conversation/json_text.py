"""JSON from outside, however it was written: lone surrogates and NaN are read too, depth has an end."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from segue.conversation.json_safe import MAX_DEPTH, is_too_deep, json_safe
from segue.errors import TranscriptError


def read_json(data: bytes | str) -> Any:
    """Parsed JSON. Raises TranscriptError `not_json` with the place of the error, or `too_deep`."""
    parsed = parse_json(data)
    if is_too_deep(data, parsed):
        raise too_deep()
    return parsed


def parse_json(data: bytes | str) -> Any:
    """The same, as deep as the interpreter can read: for callers that report a RecursionError as `too_deep` themselves,
    since looking for the depth costs more than reading."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # The standard library also reads lone surrogates and NaN, which broken files do hold.
        try:
            return json_safe(json.loads(data))
        except RecursionError as error:
            raise too_deep() from error
        except ValueError as error:
            raise TranscriptError(
                f"This is not JSON: {error}.", code="not_json", hint="Check that it is whole."
            ) from error


def too_deep() -> TranscriptError:
    return TranscriptError(
        f"This JSON nests deeper than {MAX_DEPTH} levels.",
        code="too_deep",
        hint="Check what wrote it: no request needs so many.",
    )
