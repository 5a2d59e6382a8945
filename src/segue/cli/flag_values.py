"""What the flags with a value of their own mean: -o, --temperature, --max-tokens and --effort; -t, --var and --save; --schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from segue.config.file_edit import toml_value
from segue.config.paths import TEMPLATES
from segue.config.schema import OptionSettings
from segue.config.templates import find_template
from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import UsageError
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    import argparse

    from segue.config.templates import Template


_FIELD_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


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


def save_template(arguments: argparse.Namespace) -> Path:
    """Write the flags as a template of the user. Raises UsageError where that name cannot be used or is taken."""
    name = arguments.save
    if not re.fullmatch(TEMPLATES.form, name):
        raise UsageError(
            f'"{name}" cannot be the name of a template.',
            code="bad_template",
            hint="Use small letters, digits, - and _. For example: --save commit-message",
        )
    options = msgspec.to_builtins(given_options(arguments))
    table = {
        "prompt": arguments.prompt or " ".join(arguments.words),
        "variables": variables_of(arguments),
        "system": arguments.system or "",
        "model": arguments.model,
        "tools": arguments.tools,
        "schema": read_schema(arguments.schema) if arguments.schema else None,
        "options": {key: value for key, value in options.items() if value not in (None, [], {})},
    }
    text = "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items() if value)
    if not text:
        raise UsageError(
            "There is nothing to save.",
            code="bad_template",
            hint='Give a prompt or flags. For example: segue --save short -s "Answer in one sentence."',
        )
    file = TEMPLATES.user_folder() / f"{name}{TEMPLATES.ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except FileExistsError:
        raise UsageError(
            f"The template {name} exists already: {file}",
            code="bad_template",
            hint="Choose another name, or delete the file.",
        ) from None
    return file


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
    """A JSON Schema: a file, the schema itself, or the fields of an object (`name, age int, notes: in one sentence`).
    Raises UsageError if it is not valid."""
    import jsonschema_rs  # noqa: PLC0415 - slow to load

    if not source.lstrip().startswith("{"):
        if not _is_file(source):
            return _schema_of_fields(source)
        source = Path(source).read_text("utf-8")
    try:
        schema: Any = msgspec.json.decode(source)
        jsonschema_rs.validator_for(schema)
    except (msgspec.DecodeError, ValueError, jsonschema_rs.ValidationError) as error:
        raise _bad_schema(f"is not a JSON Schema: {str(error).splitlines()[0]}") from error
    if not isinstance(schema, dict):
        raise _bad_schema("is not a JSON object.")
    return schema


def _is_file(source: str) -> bool:
    try:
        return Path(source).exists() or Path(source).suffix == ".json"
    except (OSError, ValueError):  # too long for a name, or with a character that no name has
        return False


def _schema_of_fields(text: str) -> dict[str, Any]:
    """Fields between commas, or one on each line; behind a name its type, behind a colon what it means."""
    properties: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split("\n" if "\n" in text.strip() else ","))):
        field, _, meaning = part.partition(":")
        name, _, kind = field.strip().partition(" ")
        if not name.isidentifier() or (kind := kind.strip() or "str") not in _FIELD_TYPES:
            known = ", ".join(_FIELD_TYPES)
            raise _bad_schema(
                f"is neither a file nor a list of fields: {part}. A field is NAME, or NAME and one of {known}."
            )
        if name in properties:
            raise _bad_schema(f"names the field {name} twice.")
        properties[name] = {"type": _FIELD_TYPES[kind]} | (
            {"description": meaning.strip()} if meaning else {}
        )
    if not properties:
        raise _bad_schema("is empty.")
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _bad_schema(what: str) -> UsageError:
    return UsageError(
        f"--schema {what}",
        code="bad_schema",
        hint="Give a file, the schema itself, or fields: 'name, age int'",
    )
