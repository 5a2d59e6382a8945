"""What the flags with a value of their own mean: -o, --temperature, --max-tokens and --effort; -t and --var; --schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from segue.config.schema import OptionSettings
from segue.config.templates import find_template
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import UsageError
from segue.suggestions import suggestion

if TYPE_CHECKING:
    import argparse

    from segue.config.templates import Template


def given_options(arguments: argparse.Namespace) -> Options:
    """What the flags set, and the template where they do not. Raises UsageError for an unknown option or a wrong value."""
    table: dict[str, Any] = dict(arguments.template_options)
    for given in arguments.options:
        key, equals, text = given.partition("=")
        if not equals:
            raise _bad_option(given, "is not KEY=VALUE", "For example: -o temperature=0")
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
        raise _bad_option(place.strip("`.") or "-o", f"is not valid: {what}", "") from error


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    outer, dot, inner = key.partition(".")
    if outer == "extra" and dot:
        table.setdefault("extra", {})[inner] = value
        return
    name = key.replace("-", "_")
    known = [field for field in OptionSettings.__struct_fields__ if field != "extra"]
    if name not in known:
        raise _bad_option(
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


def _bad_option(what: str, why: str, hint: str) -> UsageError:
    return UsageError(f"{what} {why}.", code="bad_option", hint=hint)


def apply_template(arguments: argparse.Namespace) -> Template:
    """Set the flags that were not given as the template has them."""
    if not arguments.template:
        raise UsageError("--var needs a template.", code="bad_template", hint="Name it: -t NAME")
    template = find_template(arguments.template, Path.cwd())
    arguments.model = arguments.model or template.model
    arguments.tools = [*template.tools, *arguments.tools]
    if arguments.system is None and template.system:
        arguments.system = template.system
    if template.schema is not None and not arguments.schema:
        arguments.schema = msgspec.json.encode(template.schema).decode()
    arguments.template_options = msgspec.to_builtins(template.options)
    return template


def variables_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What --var gives."""
    found: dict[str, str] = {}
    for given in arguments.variables:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--var {given} is not NAME=VALUE.", code="bad_template", hint="For example: --var tone=kind"
            )
        found[name] = value
    return found


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
