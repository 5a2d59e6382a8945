"""The story as data: the wire formats, and for each turn the model, the prompt, the replies and the faults."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.options import Options
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply
from segue.routing.route import Route

CHART: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAGAAAAAoAQAAAAAp6MKUAAAAS0lEQVR42mP4jwQYaMH5dzt32+1cKOeXp8okTxUo5wcDGEA4H3ByHuDkHMDJ"
    "acDJYcDF+YeT8wcn5wdOzgecnAc4OQdwchqwcagKAIVjAO6FSnRpAAAAAElFTkSuQmCC"
)
"""A chart of a latency that rises and stays: 96 by 40 pixels."""


@final
class Wire(Struct, frozen=True, forbid_unknown_fields=True):
    """A model at an emulated provider, and its dialect."""

    title: str
    dialect: str
    provider: str
    model: str
    options: Options = Options()


@final
class StoryTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """The prompt of the user, the models to ask, and their replies."""

    wires: tuple[str, ...]
    """In the order in which they are tried."""
    user: str
    replies: tuple[Reply, ...]
    image: str = ""
    """The name of an image that the user attaches."""
    cancel_after: int | None = None
    """The user cancels when this many calls of the turn have ended."""
    faults: tuple[Fault, ...] = ()
    context: int | None = None
    """The context window, if the machine allows less than the model."""

    @property
    def shown(self) -> tuple[Media, ...]:
        return (Media("image", "image/png", CHART, name=self.image),) if self.image else ()


@final
class Story(Struct, frozen=True, forbid_unknown_fields=True):
    """All of story.toml."""

    system: str
    wires: dict[str, Wire]
    turns: tuple[StoryTurn, ...]

    def routes(self, turn: StoryTurn) -> tuple[Route, ...]:
        """The routes of a turn, in the order in which they are tried."""
        return tuple(
            Route(provider=wire.provider, model=wire.model, options=wire.options, context=turn.context)
            for wire in (self.wires[name] for name in turn.wires)
        )

    def wire(self, name: str) -> Wire:
        """By the name of a route: `provider/model`."""
        return next(wire for wire in self.wires.values() if f"{wire.provider}/{wire.model}" == name)


def read_story() -> Story:
    table = tomllib.loads(files(__package__).joinpath("story.toml").read_text("utf-8"))
    return msgspec.convert(table, Story)
