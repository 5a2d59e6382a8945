"""The story as data: the routes, and turn by turn who is asked what, what is answered and what goes wrong."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.options import Options
from segue.emulators.brain import Reply
from segue.emulators.faults import Fault

CHART: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAGAAAAAoAQAAAAAp6MKUAAAAS0lEQVR42mP4jwQYaMH5dzt32+1cKOeXp8okTxUo5wcDGEA4H3ByHuDkHMDJ"
    "acDJYcDF+YeT8wcn5wdOzgecnAc4OQdwchqwcagKAIVjAO6FSnRpAAAAAElFTkSuQmCC"
)
"""A latency that rises and stays: a picture of 96 by 40 points."""


@final
class Route(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a turn can go: a model, the dialect it is asked in, and its address."""

    title: str
    dialect: str
    provider: str
    """The emulator that answers."""
    model: str
    path: str
    headers: dict[str, str] = {}
    options: Options = Options()


@final
class Interrupt(Struct, frozen=True, forbid_unknown_fields=True):
    """The user stops the calls of this round (counted from 1) after so many results."""

    round: int
    results: int


@final
class Compaction(Struct, frozen=True, forbid_unknown_fields=True):
    """These messages are replaced by a note."""

    first: int
    last: int
    note: str


@final
class Turn(Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says, who is asked, and what the model is going to answer."""

    routes: tuple[str, ...]
    """In the order in which they are tried."""
    user: str
    replies: tuple[Reply, ...]
    image: str = ""
    """The name of a picture that the user shows."""
    interrupt: Interrupt | None = None
    faults: tuple[Fault, ...] = ()
    compaction: Compaction | None = None
    """What happens to the conversation before this turn."""

    @property
    def shown(self) -> tuple[Media, ...]:
        return (Media("image", "image/png", CHART, name=self.image),) if self.image else ()


@final
class Story(Struct, frozen=True, forbid_unknown_fields=True):
    """All of story.toml."""

    system: str
    routes: dict[str, Route]
    turns: tuple[Turn, ...]


def read_story() -> Story:
    table = tomllib.loads(files(__package__).joinpath("story.toml").read_text("utf-8"))
    return msgspec.convert(table, Story)
