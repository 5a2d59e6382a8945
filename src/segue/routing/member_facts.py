"""What the providers know about the members of a router: their context windows, images, tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.errors import UsageError
from segue.routing.router import MemberFacts

if TYPE_CHECKING:
    from segue.providers.adapter import ProviderAdapter, Providers
    from segue.routing.route import Route
    from segue.routing.router import Facts


def provider_of(route: Route, providers: Providers) -> ProviderAdapter:
    found = providers.get(route.provider)
    if found is None:
        raise UsageError(
            f'Provider "{route.provider}" not registered.',
            code="unknown_provider",
            hint="Register it, or choose one of those that are.",
        )
    return found


def facts_from(providers: Providers) -> Facts:
    """What the providers themselves know of their models; where they know nothing, everything is taken to work."""

    def facts(route: Route) -> MemberFacts:
        card = provider_of(route, providers).card(route.model)
        if card is None:
            return MemberFacts(context=route.context)
        return MemberFacts(
            context=route.context or card.context, images=card.images is not False, tools=card.tools
        )

    return facts
