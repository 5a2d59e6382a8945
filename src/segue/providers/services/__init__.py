"""Models, embeddings and token counts: what servers offer besides chat, one module per wire."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from segue.dialects.registry import proper_name
from segue.providers.services.services import Services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.providers.services.services import FitOptions

__all__ = ["Services", "new_fitting", "services_of"]

_MODULES: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "mistral": "mistral",
    "ollama": "ollama",
}
"""Dialects that have a module of their own; all others use OpenAI's."""
_LOADS_WITH_OPTIONS: Final = "ollama"
"""Its servers load a model with the options of a request, and again when those change."""


@lru_cache(maxsize=64)
def services_of(dialect: str) -> Services:
    """The services of servers with this dialect. The module is loaded when first used."""
    name = proper_name(dialect)
    services: Services = import_module(f"{__package__}.{_MODULES.get(name, 'openai_like')}").services(name)
    return services


def new_fitting(dialect: str) -> FitOptions | None:
    """Fits options to requests, and remembers what it gave to a session: one per provider. None where they are sent as they
    are."""
    if dialect != _LOADS_WITH_OPTIONS:
        return None
    from segue.providers.services.ollama import Windows  # noqa: PLC0415 - of one wire

    return Windows()
