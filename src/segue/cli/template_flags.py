"""-t NAME and --var NAME=VALUE: a template gives what the flags do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.config.templates import find_template
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from segue.config.templates import Template


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
    own = msgspec.to_builtins(template.options)
    # Options of the command line come later, and so count more.
    given = [f"{key}={msgspec.json.encode(value).decode()}" for key, value in own.items() if key != "extra"]
    extra = [
        f"extra.{key}={msgspec.json.encode(value).decode()}" for key, value in own.get("extra", {}).items()
    ]
    arguments.options = [*given, *extra, *arguments.options]
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
