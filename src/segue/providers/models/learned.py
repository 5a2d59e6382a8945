"""Learned facts: what a server reports about its own models before the first chat with one.

It is asked once about a model, with a short limit, and only if the cards do not have the context window. A chat never
fails because of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.dialects.card import ModelCard
from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.errors import InvalidRequestError, SegueError, UsageError, while_doing
from segue.providers.endpoint import Endpoint
from segue.providers.services import services_for
from segue.transports.transport import shown_address

if TYPE_CHECKING:
    from segue.providers.capabilities import ModelInfo

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
