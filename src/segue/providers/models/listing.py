"""The models that a provider reports, completed from catalog and cards; and what a server reports about one before
the first chat with it.

It is asked once about a model, with a short limit, and only if the cards do not have the context window. A chat never
fails because of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar, final

from msgspec import Struct, structs

from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.dialects.registry import ALIASES, DIALECTS
from segue.errors import InvalidRequestError, SegueError, UsageError, while_doing
from segue.providers.capabilities import ModelInfo
from segue.providers.endpoint import Endpoint
from segue.providers.models.cards import card_for_model
from segue.providers.models.catalog import catalog, catalog_model, models_of
from segue.providers.services import Services, services_for
from segue.transports.transport import shown_address

LEARNING_SECONDS: Final = 3.0


@final
class LearnedCards(Struct):
    """The cards of models that one server has described so far."""

    endpoint: Endpoint
    first: str = ""
    """The first model of the server, used if none is named; empty until it was asked for."""
    cards: dict[str, ModelCard | None] = {}
    """By model, as the server reports it; None where it took too long to."""

    async def about(self, model: str, listed: ModelCard) -> None:
        """Ask what a model can do whose window is not known; where that is, so is the rest."""
        services = services_for(self.endpoint)
        if services.show_model is None or not services.shows_limits or model in self.cards:
            return
        try:
            async with asyncio.timeout(LEARNING_SECONDS):
                self.cards[model] = fitted(listed, await services.show_model(self.endpoint, model))
        except SegueError:
            pass  # the chat will fail the same way and report it; the next one may not
        except TimeoutError:
            self.cards[model] = None  # one that takes its time is not waited for again

    def refuse_tools(self, model: str) -> None:
        """Raise what the server would answer to tools, without making it load the model first."""
        card = self.cards.get(model)
        if card is not None and not card.tools:
            raise InvalidRequestError(
                f'The model "{model}" of {self.endpoint.provider} does not support tools.',
                code=TOOLS_UNSUPPORTED,
                hint="Ask without tools, choose another model, or offer the tools as text.",
            )

    async def find_first(self) -> None:
        """Ask for the models and take the first that chats. Raises what went wrong, or that there is none."""
        name, list_models = self.endpoint.provider, services_for(self.endpoint).list_models
        if self.first or list_models is None:
            return
        with while_doing(f"No model is named, and {name} does not list its models"):
            listed = await list_models(self.endpoint)
        if not listed:
            raise self.endpoint.named(
                UsageError(
                    f"No model is named, and {name} at {shown_address(self.endpoint.base_url)} has none.",
                    code="no_model",
                    hint=f"Start it with a model, or name one: {name}/MODEL, or providers.{name}.model.",
                )
            )
        self.first = next((info.id for info in listed if info.type == "chat"), listed[0].id)


def fitted(listed: ModelCard, info: ModelInfo) -> ModelCard:
    """A card with what a server reports about the model."""
    card = structs.replace(listed, context=info.context or listed.context)
    if "capabilities" not in info.details:  # an old server, which does not know what its models can do
        return card
    able = info.capabilities
    return structs.replace(
        card,
        tools="tools" in able,
        images="vision" in able,
        thinking=(listed.thinking or "switch") if "reasoning" in able else "none",
    )


Number = TypeVar("Number", int, float)
KEPT_SECONDS: Final = 300.0


@final
class ModelList(Struct):
    """The models of an endpoint, requested at most every five minutes unless `refresh` is set."""

    endpoint: Endpoint
    services: Services
    clock: Callable[[], float] = time.monotonic
    _kept: tuple[float, list[ModelInfo]] | None = None

    async def __call__(self, *, refresh: bool = False) -> list[ModelInfo]:
        """Raises what went wrong; `catalog_models` needs no request."""
        now = self.clock()
        if self._kept is None or refresh or now - self._kept[0] >= KEPT_SECONDS:
            self._kept = now, await self._ask()
        return list(self._kept[1])

    async def _ask(self) -> list[ModelInfo]:
        if self.services.list_models is None:
            raise _not_listed(self.endpoint.provider)
        with while_doing(f"Listing the models of {self.endpoint.provider} failed"):
            listed = await self.services.list_models(self.endpoint)
        return [described(info, self.endpoint.dialect.name) for info in listed]


async def show_model(endpoint: Endpoint, services: Services, name: str) -> ModelInfo:
    """All about one model. Raises when its provider does not know it."""
    if services.show_model is None:
        raise _not_listed(endpoint.provider)
    with while_doing(f'Asking {endpoint.provider} about the model "{name}" failed'):
        info = await services.show_model(endpoint, name)
    return described(info, endpoint.dialect.name)


class CatalogList(Struct, frozen=True):
    """The models of a provider that lists none itself, as the catalog has them."""

    provider: str

    async def __call__(self, *, refresh: bool = False) -> list[ModelInfo]:
        del refresh
        return catalog_models(self.provider)


def catalog_models(provider: str) -> list[ModelInfo]:
    """The models of a provider in the catalog, without a request."""
    maker = catalog().same_models.get(provider, provider)
    wire = ALIASES.get(maker, maker)
    return [
        described(ModelInfo(id=listed.id, provider=provider, name=listed.id, type=listed.type), wire)
        for listed in models_of(provider)
    ]


def described(info: ModelInfo, dialect: str) -> ModelInfo:
    """A model with all that is known about it. What its provider reported is kept."""
    listed = catalog_model(info.provider, info.id)
    card = card_for_model(info.id, dialect)
    kind = listed.type if listed is not None else info.type
    price = listed.price if listed is not None else None
    chats = kind == "chat"
    return structs.replace(
        info,
        name=info.name or info.id,
        type=kind,
        capabilities=_capabilities(info, kind, card, dialect),
        context=_first(info.context, listed and listed.context, card.context if chats else None),
        output=_first(info.output, listed and listed.output, card.output if chats else None),
        dimensions=_first(info.dimensions, listed and listed.dimensions),
        input_price=_first(info.input_price, price and price.input),
        output_price=_first(info.output_price, price.output if price is not None and chats else None),
    )


def _first(*found: Number | None) -> Number | None:
    return next((one for one in found if one is not None), None)


def _capabilities(info: ModelInfo, kind: str, card: ModelCard, dialect: str) -> tuple[str, ...]:
    if kind == "embedding":
        return ("embeddings",)
    if kind != "chat":
        return info.capabilities
    able = {"streaming", *info.capabilities}
    # Some providers list all that a model can do: then the card has nothing to add.
    if "capabilities" not in info.details and card is not UNKNOWN:
        able |= _on_the_card(card, dialect)
    return tuple(sorted(able))


def _on_the_card(card: ModelCard, dialect: str) -> set[str]:
    images = card.images
    if images is None:
        shown = DIALECTS[dialect].rules.media.user if dialect in DIALECTS else ()
        images = any(kind.startswith("image/") for kind in shown)
    facts = {"tools": card.tools, "vision": images, "reasoning": card.thinking not in ("", "none")}
    return {name for name, there in facts.items() if there}


def _not_listed(provider: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{provider} does not list its models.",
        code="unsupported",
        hint="Name the model yourself; segue sends what it is given.",
    )
