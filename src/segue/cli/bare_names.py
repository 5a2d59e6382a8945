"""Names without a provider: `-m gemini` is its default model, `-m gpt-4.1` the model of the provider that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.model_discovery import default_model_of
from segue.config.validation import suggestion
from segue.errors import UsageError
from segue.providers.models.catalog import catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.config.schema import Config


def full_name(name: str, config: Config, known: list[str], configured: Callable[[], list[str]]) -> str:
    """provider/model for a name without a slash; an alias or a profile as it is. Raises UsageError where it is not clear which.

    `known`: all providers; `configured`: those that can be used.
    """
    if name in config.aliases or name in config.profiles or name.partition(":")[0] in known:
        if name not in known:
            return name
        model = default_model_of(name, config)
        if not model:
            raise UsageError(
                f"{name} has no default model.", code="no_model", hint=f"List its models: segue models {name}"
            )
        return f"{name}/{model}"
    offers = [
        f"{provider}/{name}"
        for model in catalog().model
        if name == model.id or name in model.also
        for provider in model.providers
    ]
    if len(offers) > 1:
        usable = set(configured())
        offers = [offer for offer in offers if offer.partition("/")[0] in usable] or offers[:1]
    if not offers:
        names = [*config.aliases, *config.profiles, *known, *(model.id for model in catalog().model)]
        raise UsageError(
            f'"{name}" is not an alias, a profile, a provider or a known model.',
            code="bad_model_name",
            hint=suggestion(name, names) or "Write provider/model. List the models: segue models",
        )
    if len(offers) > 1:
        raise UsageError(
            f'"{name}" is a model of several providers.',
            code="bad_model_name",
            hint=f"Choose one: {', '.join(offers)}.",
        )
    return offers[0]


def completions(config: Config, configured: list[str]) -> list[str]:
    """Names that -m takes: aliases, profiles, and the known models of the providers that can be used."""
    models = [
        f"{provider}/{model.id}"
        for model in catalog().model
        if model.type == "chat"
        for provider in model.providers
        if provider in configured
    ]
    defaults = [f"{name}/{model}" for name in configured if (model := default_model_of(name, config))]
    return list(dict.fromkeys([*config.aliases, *config.profiles, *defaults, *models]))
