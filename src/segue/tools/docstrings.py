"""What a model reads of a function's docstring: what the function does, and what each parameter means.

Google, NumPy, Sphinx and Epydoc styles are read alike.
"""

from __future__ import annotations

import inspect
from typing import Any, final

from msgspec import Struct


@final
class Explained(Struct, frozen=True):
    """A docstring, taken apart."""

    summary: str = ""
    parameters: dict[str, str] = {}


def explain(function: Any) -> Explained:
    """The docstring of a function; empty where there is none."""
    text = inspect.getdoc(function)
    if not text:
        return Explained()
    import docstring_parser  # noqa: PLC0415 - only who makes a tool of a function needs it

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        # A docstring that breaks its own style is still the best description there is.
        return Explained(text)
    texts = [parsed.short_description, parsed.long_description]
    if parsed.returns and parsed.returns.description:
        texts.append(f"Returns: {parsed.returns.description}")
    return Explained(
        "\n\n".join(part.strip() for part in texts if part),
        {
            parameter.arg_name: " ".join(parameter.description.split())
            for parameter in parsed.params
            if parameter.description
        },
    )
