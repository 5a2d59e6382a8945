"""What a model's name stands for: an alias, a profile, a provider with a model, or a model of the given provider.

A name without a provider is that of the provider which has such a model (`known_offers`).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.config.resources import is_set_up, open_providers
from segue.config.schema import ProfileSettings
from segue.conversation.usage import Usage
from segue.errors import UsageError
from segue.providers.hosts.addresses import find_address
from segue.providers.models.makers import providers_with
from segue.providers.models.prices import PriceBook, PriceRule
from segue.routing.route import Route, parse_route
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.config.layers import Settings
    from segue.config.schema import Config
    from segue.config.toml_lines import SettingPath
    from segue.providers.registry import KnownProviders

_MOST_ALIASES = 8
"""An alias may stand for another, but not in a circle."""
_NOTE: Final = re.compile(r"(?<=.)\[[^\[\]]*\]$")
"""What a program writes behind a model's name for itself: Claude Code notes a long context window as `[1m]`."""


@final
class ModelChoice(Struct, frozen=True):
    """What answers: one model, or a profile of several."""

    routes: tuple[Route, ...]
    profile: str = ""
    settings: ProfileSettings | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """provider/model each."""
        return tuple(route.name for route in self.routes)


def resolve_model(name: str, config: Config, *, provider: str = "") -> ModelChoice:
    """What a name stands for. With `provider`, the name is a model of that provider."""
    if provider:
        return ModelChoice((parse_route(f"{provider}/{name}"),))
    name = name if name in config.aliases or name in config.profiles else without_note(name)
    if name in config.aliases:
        name = _without_aliases(name, config)
    if profile := config.profiles.get(name):
        routes = tuple(parse_route(_without_aliases(member, config)) for member in profile.members)
        return ModelChoice(routes, name, profile)
    if "/" not in name and ":" not in name:
        raise UsageError(
            f'"{name}" is not an alias, a profile or provider/model.',
            code="bad_model_name",
            hint=suggestion(name, [*config.aliases, *config.profiles]) or "List the models: segue models",
        )
    return ModelChoice((parse_route(name),))


def without_note(name: str) -> str:
    """A model's name as its provider knows it: without what a program adds in brackets."""
    return _NOTE.sub("", name)


def known_offers(name: str) -> list[str]:
    """provider/model of each provider that has a model of this name, which has no provider in it; its maker comes first."""
    model = without_note(name)
    return [f"{provider}/{model}" for provider in providers_with(model)]


def usable_offers(name: str, config: Config, providers: KnownProviders) -> list[str]:
    """Those of them whose provider is set up."""
    return [offer for offer in known_offers(name) if is_set_up(offer.partition("/")[0], config, providers)]


def with_options(route: Route, config: Config) -> Route:
    """The route with what the settings have for its model."""
    for pattern, options in config.options.items():
        if fnmatchcase(route.name, pattern):
            route = structs.replace(route, options=options.as_options().over(route.options))
    return route


def _without_aliases(name: str, config: Config) -> str:
    for _ in range(_MOST_ALIASES):
        if name not in config.aliases:
            return name
        name = config.aliases[name]
    raise UsageError(
        f'The alias "{name}" refers to itself.',
        code="config",
        hint="List the aliases: segue config show",
    )


def reference_faults(settings: Settings) -> list[str]:
    """Names in the settings that lead nowhere, each with its place."""
    config, known = settings.config, open_providers(settings.config).list()
    named: list[tuple[SettingPath, str]] = [(("model",), config.model)] if config.model else []
    named += [(("aliases", name), name) for name in config.aliases]
    named += [(("profiles", name, "members"), name) for name in config.profiles]
    named += [(("gateway", "model"), config.gateway.model)] if config.gateway.model else []
    named += [(("gateway", "models", asked), name) for asked, name in config.gateway.models.items()]
    faults = []
    for path, name in named:
        try:
            routes = resolve_model(name, config).routes
        except UsageError as error:
            faults.append(f"{settings.origin(path)}: {error.message} {error.hint}")
            continue
        for provider in dict.fromkeys(route.provider for route in routes):
            if provider not in known and find_address(provider) is None:
                wrong = f'There is no provider "{provider}". {suggestion(provider, known)}'.rstrip()
                faults.append(f"{settings.origin(path)}: {wrong}")
    return [*faults, *_price_faults(settings)]


def _price_faults(settings: Settings) -> Iterator[str]:
    """Prices that are like those of nothing."""
    book, something = PriceBook(settings.config.prices), Usage(1, 1)
    for pattern, rule in settings.config.prices.items():
        like = rule.like if isinstance(rule, PriceRule) else ""
        provider, _, model = like.partition("/")
        if like and (not model or (model != "*" and book.cost_of(something, provider, model) is None)):
            place = settings.origin(("prices", pattern))
            yield f'{place}: The price of "{like}" is not known. Name another provider/model, or set input and output.'
