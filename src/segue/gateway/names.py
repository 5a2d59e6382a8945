"""What the model names of clients stand for: routers, kept for as long as the gateway runs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, final

from segue.config.model_names import known_offers, resolve_model, usable_offers, without_note
from segue.config.resources import open_router
from segue.conversation.blocks import Origin
from segue.dialects.registry import is_form_of
from segue.dialects.server_side.wire_server import ServedModel
from segue.errors import InvalidRequestError, SegueError, UsageError
from segue.providers.hosts.addresses import find_address, is_home
from segue.providers.models.makers import model_suggestion
from segue.routing.route import default_route, facts_from, parse_route, provider_of
from segue.routing.router import SingleRouter

if TYPE_CHECKING:
    from segue.config.model_names import ModelChoice
    from segue.config.schema import Config, PolicyName
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Facts
    from segue.routing.router import Router

_KEPT_NAMES = 10_000
"""Clients may ask for any name; no more of them are kept."""
_LATEST = ":latest"
"""Clients of local servers add it to names."""
_STICKY: tuple[PolicyName, ...] = ("weighted", "least_latency")
"""Policies that say nothing about the next turn of a conversation: it stays where its prefix is cached."""


@final
class ModelNames:
    """Finds routers by the names that clients ask for."""

    def __init__(self, config: Config, providers: KnownProviders) -> None:
        self._config = config
        self._providers = providers
        self._facts: Facts = facts_from(providers)
        self._choice = lru_cache(_KEPT_NAMES)(self._choose)
        self._meant = lru_cache(_KEPT_NAMES)(self._meant_by)
        self.writer = lru_cache(_KEPT_NAMES)(self._find_writer)
        """Who evidently wrote the replies in a history that we did not see, by the name that its client asks for and its wire:
        that very model, at its provider if that speaks the wire."""
        self.single = lru_cache(_KEPT_NAMES)(self._open)
        """The router of one provider/model, by the name of a route."""

    def router(self, asked: str) -> Router:
        """The router behind a name. Raises 404 if it leads nowhere."""
        return self.single(self._meant(asked))

    def native(self, asked: str) -> str:
        """The model's name at the provider that the client was made for; empty if it asks for a name of ours."""
        name = without_note(asked.removeprefix("models/"))
        if name in self._config.aliases or name in self._config.profiles:
            return ""
        choice = self._choice(name) if name not in self._config.gateway.models else None
        return name if choice is None else choice.routes[0].model

    def _find_writer(self, asked: str, wire: str) -> Origin:
        model = self.native(asked)
        known = Origin(wire, model=model)
        choice = self._choice(without_note(asked.removeprefix("models/"))) if model else None
        if choice is None or choice.routes[0].model != model:
            return known
        try:
            forward = provider_of(choice.routes[0], self._providers).capabilities.forward
        except SegueError:  # the request will report what is wrong
            return known
        target = forward.target(model) if forward is not None else known
        if not is_form_of(target.dialect, wire):
            return known
        # A provider that is not named is the wire's own (decision 12).
        return known if is_home(target.provider, wire) else target

    def is_sticky(self, asked: str) -> bool:
        """Whether a conversation stays with its last route, as far as the policy is concerned."""
        choice = self._choice(self._meant(asked))
        return choice is not None and choice.settings is not None and choice.settings.policy in _STICKY

    def served(self) -> list[ServedModel]:
        """All names that can be asked for, as models."""
        settings = self._config.gateway
        names = dict.fromkeys(
            (
                *(name for name in settings.models if not _is_pattern(name)),
                *self._config.aliases,
                *self._config.profiles,
                *(name for name in (settings.model, self._config.model) if name),
            )
        )
        return [self.served_model(name) for name in names if self._leads_somewhere(name)]

    def is_known(self, name: str) -> bool:
        """Whether the configuration still knows a name that an operator chose."""
        return self._choice(name) is not None

    def led_to(self, asked: str) -> tuple[str, ...]:
        """The names of the routes behind a name."""
        return tuple(route.name for route in self.router(asked).routes)

    def served_model(self, asked: str) -> ServedModel:
        """One of them. What is not known of all its members is not promised."""
        router = self.router(asked)
        known = []
        for route in router.routes:
            try:
                known.append(self._facts(route))
            except SegueError:
                continue
        return ServedModel(
            id=asked,
            title=asked,
            owner=router.routes[0].provider if len(router.routes) == 1 else "segue",
            context=router.context_limit,
            tools=all(facts.tools for facts in known),
            images=all(facts.images for facts in known),
        )

    def _leads_somewhere(self, name: str) -> bool:
        try:
            return bool(self.router(name).routes)
        except SegueError:  # one wrong name takes no other from the list
            return False

    def _meant_by(self, asked: str) -> str:
        asked = asked.removeprefix("models/")
        settings = self._config.gateway
        for name in (asked, asked.removesuffix(_LATEST)):
            if name in settings.models:
                return settings.models[name]
            if self._choice(name) is not None:
                return name
        # The longest pattern is the one that means the fewest names.
        for pattern in sorted(settings.models, key=len, reverse=True):
            if _is_pattern(pattern) and fnmatchcase(asked, pattern):
                return settings.models[pattern]
        if settings.model:
            return settings.model
        usable = usable_offers(asked, self._config, self._providers)
        if usable:
            return usable[0]
        default = default_route(self._providers, asked)
        if default is None:
            raise unknown_model(asked)
        return default.name

    def _choose(self, name: str) -> ModelChoice | None:
        """What a name of the configuration stands for; None if it is none, or its provider is not known."""
        try:
            choice = resolve_model(name, self._config)
        except UsageError:
            return None
        if choice.profile or name in self._config.aliases:
            return choice
        return choice if self._is_known(choice.routes[0].provider) else None

    def _is_known(self, provider: str) -> bool:
        try:
            return self._providers.get(provider) is not None
        except SegueError:  # it is known, and something is missing: the request will report what
            return True

    def _open(self, name: str) -> Router:
        try:
            choice = resolve_model(name, self._config)
        except UsageError as error:
            raise unknown_model(name) from error
        if choice.profile:
            return open_router(choice.profile, choice.routes, choice.settings, self._providers)
        return SingleRouter(choice.routes[0] if choice.routes else parse_route(name), self._facts)


def unknown_model(asked: str) -> InvalidRequestError:
    hint = f"{model_suggestion(asked)} Ask for provider/model, an alias, a profile, or a name in gateway.models.".lstrip()
    if offers := known_offers(asked.removeprefix("models/")):
        provider = offers[0].partition("/")[0]
        address = find_address(provider)
        keys = " or ".join(address.key_env) if address is not None else ""
        hint = (
            f"It is a model of {provider}, which is not set up here: give the gateway a key"
            f"{f' in {keys}' if keys else ''} (segue keys set {provider}), or set what answers instead: gateway.models."
        )
    return InvalidRequestError(
        f'There is no model "{asked}" here.' if asked else "The request names no model.",
        code="model_not_found",
        path="model",
        status=404,
        hint=hint,
    )


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")
