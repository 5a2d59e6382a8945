"""Arguments and results as text that every target can read, whatever they hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec

from segue.conversation.json_safe import encodable, is_encodable, is_json_safe, json_safe

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall

_ENCODER = msgspec.json.Encoder()


@final
class _AnyObject(msgspec.Struct, gc=False):
    """An object whose fields are read over, which takes a third of the time of keeping them."""


_read_over = msgspec.json.Decoder(_AnyObject).decode


def is_object_text(text: str) -> bool:
    """Whether a text is the JSON of an object."""
    try:
        _read_over(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def text_form(value: Any) -> tuple[str, bool]:
    """A tool's output as text, and whether that is exactly what the value holds.

    Text stays as it is, None is the empty text, anything else is JSON.
    """
    if type(value) is str:
        if is_encodable(value):
            return value, True
        return encodable(value), False
    if value is None:
        return "", True
    exact = is_json_safe(value)
    safe = value if exact else json_safe(value)
    return (safe if type(safe) is str else _ENCODER.encode(safe).decode()), exact


def text_of(value: Any) -> str:
    return text_form(value)[0]


def json_of(value: Any) -> str:
    """The value as JSON text; never fails."""
    return _json(value)[0]


_LARGE = 1e15


def _is_flat(value: dict[Any, Any]) -> bool:
    """Whether it holds plain values alone, as most arguments do: looking into each takes many times as long."""
    for key, held in value.items():
        if type(key) is not str:
            return False
        kind = type(held)
        if kind is str or kind is bool or held is None:
            continue
        if not ((kind is int or kind is float) and -_LARGE < held < _LARGE):
            return False
    return True


def plain_text(value: dict[Any, Any]) -> str:
    """The JSON of an object that holds plain values alone; empty if it may hold others."""
    if _is_flat(value):
        try:
            return _ENCODER.encode(value).decode()
        except UnicodeEncodeError:
            pass
    return ""


def _json(value: Any) -> tuple[str, bool]:
    if type(value) is dict and (text := plain_text(value)):
        return text, True
    # msgspec writes NaN as null and bytes as text without an error: only plain data is encoded here.
    if is_json_safe(value):
        return _ENCODER.encode(value).decode(), True
    return _ENCODER.encode(json_safe(value)).decode(), False


ArgumentsChange: TypeAlias = Literal["", "value_made_safe", "arguments_wrapped"]
WRAPPED = "raw_arguments"
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)


def is_deeper(text: str, levels: int) -> bool:
    """Whether a JSON text is nested in more levels than this."""
    if text.count("{") + text.count("[") <= levels:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > levels:
                return True
        elif found[0] in "]}":
            depth -= 1
    return False


def arguments_of(call: ToolCall, levels: int = 0) -> tuple[str, ArgumentsChange]:
    """The JSON object to send as arguments, and what had to be done for it to be one.

    What is nested in more than so many levels is sent as text inside one; 0 is no limit.
    """
    change: ArgumentsChange = ""
    if call.raw and is_object_text(call.raw):
        text = call.raw
    elif type(call.arguments) is dict:
        text, exact = _json(call.arguments)
        change = "" if exact else "value_made_safe"
    elif not call.raw and call.arguments is None:
        text = "{}"
    else:
        text, change = json_of({WRAPPED: call.raw or call.arguments}), "arguments_wrapped"
    if levels and is_deeper(text, levels):
        return json_of({WRAPPED: text}), "arguments_wrapped"
    return text, change
