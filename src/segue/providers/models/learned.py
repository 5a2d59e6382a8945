"""What a server tells about its own models before the first chat with one: which it has, and what they can do.

It is asked once about a model, briefly, and only where the catalog knows too little. A chat never fails because of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from msgspec import structs

from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.errors import InvalidRequestError, SegueError, UsageError, while_doing

if TYPE_CHECKING:
    from segue.dialects.card import ModelCard
    from segue.providers.capabilities import ModelInfo
    from segue.providers.endpoint import Endpoint
    from segue.providers.services import Services

LEARNING_SECONDS: Final = 3.0


@final
class LearnedCards:
    """What one place has told so far."""

    def __init__(self, endpoint: Endpoint, services: Services) -> None:
        self.first = ""
        """The model that is meant where a server has what it has; nothing until it was asked for."""
        self._endpoint = endpoint
        self._services = services
        self._told: dict[str, ModelCard | None] = {}

    def card(self, model: str, listed: ModelCard) -> ModelCard:
        """What is known about a model: as its server says, else as it is `listed` in the catalog."""
        return self._told.get(model) or listed

    async def about(self, model: str, listed: ModelCard) -> None:
        """Ask what a model can do, unless its window is known: then so is the rest."""
        show = self._services.show_model
        if show is None or not self._services.shows_limits or listed.context or model in self._told:
            return
        try:
            async with asyncio.timeout(LEARNING_SECONDS):
                self._told[model] = fitted(listed, await show(self._endpoint, model))
        except SegueError:
            pass  # the chat will meet the same trouble and tell of it; the next one may not
        except TimeoutError:
            self._told[model] = None  # one that takes its time is not waited for again

    def refuse_tools(self, model: str) -> None:
        """Say what the server would say to tools, without having it load the model first."""
        told = self._told.get(model)
        if told is not None and not told.tools:
            raise InvalidRequestError(
                f'The model "{model}" of {self._endpoint.provider} does not support tools.',
                code=TOOLS_UNSUPPORTED,
                hint="Ask without tools, choose another model, or tell it of the tools in words.",
            )

    async def find_first(self) -> None:
        """Ask for the models and take the first that chats. Raises what went wrong, or that there is none."""
        name, list_models = self._endpoint.provider, self._services.list_models
        if self.first or list_models is None:
            return
        with while_doing(f"No model is named, and {name} does not say which it has"):
            listed = await list_models(self._endpoint)
        if not listed:
            raise UsageError(
                f"No model is named, and {name} at {self._endpoint.base_url} has none.",
                code="no_model",
                hint=f"Start it with a model, or name one: {name}/MODEL, or providers.{name}.model.",
            )
        self.first = next((info.id for info in listed if info.type == "chat"), listed[0].id)


def fitted(listed: ModelCard, info: ModelInfo) -> ModelCard:
    """A card with what a server says of the model, as far as it says anything."""
    told = structs.replace(listed, context=info.context or listed.context)
    if "capabilities" not in info.details:  # an old server, which does not know what its models can do
        return told
    able = info.capabilities
    return structs.replace(
        told,
        tools="tools" in able,
        images="vision" in able,
        thinking=(listed.thinking or "switch") if "reasoning" in able else "none",
    )
