"""-o, --temperature, --max-tokens, --effort: the options of a model on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.config.schema import OptionSettings
from segue.config.validation import suggestion
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse


def given_options(arguments: argparse.Namespace) -> Options:
    """What the flags set. Raises UsageError for an unknown option or a wrong value."""
    table: dict[str, Any] = {}
    for given in arguments.options:
        key, equals, text = given.partition("=")
        if not equals:
            raise _bad(given, "is not KEY=VALUE", "For example: -o temperature=0")
        _put(table, key.strip(), _value(text.strip()))
    for name in ("temperature", "max_tokens", "effort"):
        if (value := getattr(arguments, name)) is not None:
            table[name] = value
    if not table:
        return NO_OPTIONS
    try:
        return msgspec.convert(table, OptionSettings).as_options()
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise _bad(place.strip("`.") or "-o", f"is not valid: {what}", "") from error


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    outer, dot, inner = key.partition(".")
    if outer == "extra" and dot:
        table.setdefault("extra", {})[inner] = value
        return
    name = key.replace("-", "_")
    known = [field for field in OptionSettings.__struct_fields__ if field != "extra"]
    if name not in known:
        raise _bad(
            key,
            "is not an option of a model",
            suggestion(name, known)
            or f"Known: {', '.join(known)}. A field of the provider's own: -o extra.{key}=…",
        )
    table[name] = [value] if name == "stop" and isinstance(value, str) else value


def _value(text: str) -> Any:
    """A JSON value; a text that is none stands for itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _bad(what: str, why: str, hint: str) -> UsageError:
    return UsageError(f"{what} {why}.", code="bad_option", hint=hint)
