"""Reading parsed JSON that should be a request: the right type where one is needed, or an error with the path to it."""

from __future__ import annotations

from typing import Any

from segue.conversation.json_safe import encodable
from segue.errors import TranscriptError

_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def wrong_type(path: str, wanted: str, value: Any) -> TranscriptError:
    """The error for a value that cannot stand where it stands."""
    found = _NAMES.get(type(value), type(value).__name__)
    return TranscriptError(f"Expected {wanted}, found {found}.", code="bad_request_body", path=path)


def unknown(path: str, what: str, value: Any, known: str) -> TranscriptError:
    """The error for a name that this wire does not have, or that is missing."""
    said = f'There is no {what} "{encodable(str(value))[:80]}" on this wire.'
    return TranscriptError(
        f"The {what} is missing." if value in (None, "") else said,
        code="bad_request_body",
        path=path,
        hint=f"Known are: {known}.",
    )


def record(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    return value


def items(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return value


def text(value: Any, path: str) -> str:
    """A string; null and absence are the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong_type(path, "a string", value)
    return value


def number(value: Any, path: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(path, "a number", value)
    return value


def whole(value: Any, path: str) -> int | None:
    found = number(value, path)
    if found is None:
        return None
    if found != int(found):
        raise wrong_type(path, "a whole number", value)
    return int(found)


def flag(value: Any, path: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise wrong_type(path, "a boolean", value)
    return value


def texts(value: Any, path: str) -> tuple[str, ...]:
    """Strings: a list of them, or one; null and absence are none."""
    if value is None:
        return ()
    return tuple(text(item, path) for item in ([value] if isinstance(value, str) else items(value, path)))


def listed(value: Any, path: str) -> list[Any]:
    """An array; null and absence are the empty one."""
    return items(value, path) if value is not None else []
