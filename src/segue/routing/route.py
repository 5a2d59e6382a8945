"""Where a turn goes: a provider, a model and the options that hold there; and what is known of it before it is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from segue.conversation.options import Options
from segue.errors import UsageError
from segue.limits import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.providers.adapter import ProviderAdapter, Providers


@final
class Route(Struct, frozen=True, kw_only=True):
    """Pinned for all exchanges of a turn."""

    provider: str
    model: str
    options: Options = Options()
    context: int | None = None
    """Tokens that fit; None: as the model's card or its provider reports."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_route(name: str, options: Options = Options()) -> Route:  # noqa: B008 - a frozen value
    """`provider/model` or `provider:model`; only the first separator counts, models have their own."""
    cut = min((at for at in (name.find("/"), name.find(":")) if at >= 0), default=-1)
    provider, model = name[:cut].strip(), name[cut + 1 :].strip()
    if cut < 0 or not provider or not model:
        from segue.providers.models.makers import model_suggestion  # noqa: PLC0415 - only a wrong name needs it

        raise UsageError(
            f'"{name}" names no provider and model.',
            code="bad_model_name",
            hint=model_suggestion(name) or "Write provider/model, for example anthropic/claude-sonnet-4-6.",
        )
    return Route(provider=provider, model=model, options=options)


def default_route(providers: Providers | None, model: str = "") -> Route | None:
    """A model, or the usual one, of the provider that answers where none is named; None if there is no such provider."""
    get_default = getattr(providers, "get_default", None)
    if get_default is None:
        return None
    try:
        adapter: ProviderAdapter = get_default()
    except UsageError:
        return None
    return Route(provider=adapter.name, model=model or DEFAULT_MODEL)


@final
class MemberFacts(Struct, frozen=True, kw_only=True):
    """What is known of a route before it is tried."""

    context: int | None = None
    images: bool = True
    tools: bool = True
    limited: float = 0.0
    """Seconds until a limit of its provider is whole again that is used up now."""


Facts: TypeAlias = "Callable[[Route], MemberFacts]"
"""Raises an error if a route cannot be used: no such provider, no key."""


def provider_of(route: Route, providers: Providers) -> ProviderAdapter:
    found = providers.get(route.provider)
    if found is None:
        from segue.providers.registry import names_of, not_registered  # noqa: PLC0415 - only a wrong name needs it

        raise not_registered(route.provider, names_of(providers))
    return found


def facts_from(providers: Providers) -> Facts:
    """What the providers themselves know of their models; where they know nothing, everything is taken to work."""

    def facts(route: Route) -> MemberFacts:
        provider = provider_of(route, providers)
        card, limited = provider.card(route.model), provider.wait_for_limit(route.model)
        if card is None:
            return MemberFacts(context=route.context, limited=limited)
        return MemberFacts(
            context=route.context or card.context,
            images=card.images is not False,
            tools=card.tools,
            limited=limited,
        )

    return facts
