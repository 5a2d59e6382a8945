"""Routers, from a profile and by hand, and one of one's own."""

from __future__ import annotations

from typing import assert_type

from segue import Chat, Route, default_registry
from segue.routing import (
    BreakerSettings,
    Profile,
    RetrySettings,
    Router,
    build_router,
    facts_from,
    parse_route,
)

providers = default_registry()
team = Profile(
    name="team",
    policy="failover",
    members=("openai/large", "mistral/small"),
    retry=RetrySettings(attempts=2),
    breaker=BreakerSettings(failures=3),
)
router = build_router(team, facts_from(providers))


def first(of: Router) -> Route:
    return of.routes[0]


assert_type(parse_route("openai/any"), Route)
assert_type(first(router), Route)
Chat(router, providers=providers)
Profile(name="team", policy="nonsense", members=())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
