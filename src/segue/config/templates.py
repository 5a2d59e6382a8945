"""Templates: prompts of one's own with a system prompt, model, tools, schema and options, one TOML file each.

The user's are used as they are. A project's are used once they are trusted, and never in place of one of the user's.
Installed packages may offer more.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.config.paths import TEMPLATES
from segue.config.schema import OptionSettings
from segue.config.trust import read_named
from segue.errors import UsageError
from segue.plugins import contribution, contributions
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.plugins import Contribution

INPUT: Final = "input"
"""The variable that stands for what the user writes or pipes in."""
_VARIABLE: Final = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


@final
class Template(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a template file holds."""

    description: str = ""
    prompt: str = ""
    """With $input for what the user writes, and $name or ${name} for variables; $$ is a dollar."""
    variables: dict[str, str] = {}
    """Values of variables that are not given."""
    system: str = ""
    model: str = ""
    tools: list[str] = []
    schema: dict[str, Any] | None = None
    """JSON Schema that the answer must match."""
    options: OptionSettings = OptionSettings()

    def fill(self, text: str, given: Mapping[str, str]) -> str:
        """The prompt with its variables. Without $input the text follows it. Raises UsageError for a missing one."""
        values = {**self.variables, **given, INPUT: text}
        names = {found[1] or found[2] for found in _VARIABLE.finditer(self.prompt)} - {None}
        missing = sorted(names - values.keys())
        if unknown := sorted(given.keys() - names - self.variables.keys()):
            raise _wrong(f"The template has no variable {', '.join(unknown)}.", suggestion(unknown[0], names))
        if missing:
            raise _wrong(f"Variables are missing: {', '.join(missing)}.", f"Give them: --var {missing[0]}=…")
        if INPUT in names and not text.strip():
            raise _wrong("The template needs a text.", "Write or pipe one in.")
        filled = _VARIABLE.sub(
            lambda found: values[found[1] or found[2]] if found[1] or found[2] else "$", self.prompt
        )
        return filled if INPUT in names or not text.strip() else f"{filled}\n\n{text}".strip()


def find_template(name: str, start: Path) -> Template:
    """Raises UsageError where there is none, or it is not trusted, or is wrong."""
    if name not in TEMPLATES.find(start) and (offered := contribution("template", name)) is not None:
        return plugin_template(offered)
    file, data = read_named(TEMPLATES, name, start, template_names(start))
    try:
        return msgspec.convert(tomllib.loads(data.decode()), Template)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{file}: {error}.", code="config", hint="Correct the file.") from error


def template_names(start: Path) -> list[str]:
    """Those of files, and those of plugins."""
    return [*dict.fromkeys([*TEMPLATES.find(start), *(one.name for one in contributions("template"))])]


def plugin_template(offered: Contribution) -> Template:
    """What a package offers: the fields of a template as a dict, or a function that gives them."""
    found = offered.load()
    try:
        return msgspec.convert(found() if callable(found) else found, Template)
    except Exception as error:
        raise offered.failure("cannot be used", error) from error


def _wrong(message: str, hint: str) -> UsageError:
    return UsageError(message, code="bad_template", hint=hint)
