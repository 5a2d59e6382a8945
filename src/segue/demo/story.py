"""The story as data: the wires, and turn by turn who is asked what, what is answered and what goes wrong."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.options import Options
from segue.emulators.faults import Fault
from segue.emulators.model_reply import Reply
from segue.routing.route import Route

CHART: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAGAAAAAoAQAAAAAp6MKUAAAAS0lEQVR42mP4jwQYaMH5dzt32+1cKOeXp8okTxUo5wcDGEA4H3ByHuDkHMDJ"
    "acDJYcDF+YeT8wcn5wdOzgecnAc4OQdwchqwcagKAIVjAO6FSnRpAAAAAElFTkSuQmCC"
)
"""A latency that rises and stays: a picture of 96 by 40 points."""


@final
class Wire(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a turn can go: a model at an emulated provider, and the dialect that is spoken there."""

    title: str
    dialect: str
    provider: str
    model: str
    options: Options = Options()


@final
class StoryTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says, who is asked, and what the model is going to answer."""

    wires: tuple[str, ...]
    """In the order in which they are tried."""
    user: str
    replies: tuple[Reply, ...]
    image: str = ""
    """The name of a picture that the user shows."""
    cancel_after: int | None = None
    """The user loses patience when so many calls of the turn have ended."""
    faults: tuple[Fault, ...] = ()
    context: int | None = None
    """Tokens that fit, where the machine is smaller than the model."""

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
        """Where a turn may go."""
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
