"""The story as data: the wire formats, and for each turn the model, the prompt, the replies and the faults; and its
tools, an online shop in tiny functions with little state, so that every run is the same."""

from __future__ import annotations

import asyncio
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Media
from segue.conversation.options import Options
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply
from segue.routing.route import Route
from segue.tools.function_tools import as_tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.tools import ToolSpec


_SERVICES = {"checkout": (180, 2400), "search": (95, 97), "cart": (60, 61)}
_CULPRIT = 841
"""Without it, checkout is as fast as before."""
_RECOVERED = 185
_DEPLOYS = {"839": "11:05", "840": "11:58", "841": "13:58"}
_QUERIES = {"orders": [{"query": "SELECT total FROM cart_rows", "per_order": 40}]}
_CHANGES = {841: ["9c1e read totals row by row", "77d0 new button"], 840: ["51ab faster images"]}
_REGIONS = {"frankfurt": 2390, "dublin": 2410, "virginia": 2380, "oregon": 2405, "singapore": 2440}
_ORDER_SECONDS = 10.0
"""Longer than the user of the story waits."""


@final
class Shop:
    """An online shop in trouble. Its tools are coroutines: they end in a fixed order, whatever threads do."""

    def __init__(self) -> None:
        self._live = 841
        self._test_orders = 0

    @property
    def tools(self) -> tuple[Callable[..., Any], ...]:
        return self.latency, self.deploys, self.slow_queries, self.changes, self.probe, self.rollback

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(as_tool(function).spec for function in self.tools)

    @tool(effect="read")
    async def latency(self, service: str) -> dict[str, int]:
        """The 95th percentile of a service's response times, before today's change and now, in milliseconds.

        Args:
            service: The name of the service, for instance checkout.
        """
        before, now = _SERVICES[service]
        recovered = service == "checkout" and self._live != _CULPRIT
        return {"before_ms": before, "now_ms": _RECOVERED if recovered else now}

    @tool(effect="read")
    async def deploys(self, since: str) -> dict[str, str]:
        """The deploys since a time of today, each with its time.

        Args:
            since: A time such as 13:30.
        """
        return {deploy: at for deploy, at in _DEPLOYS.items() if at >= since}

    @tool(effect="read")
    async def slow_queries(self, database: str) -> list[dict[str, Any]]:
        """The queries that cost a database the most, and how often each runs for one order.

        Args:
            database: The name of the database.
        """
        return _QUERIES[database]

    @tool(effect="read")
    async def changes(self, deploy: int) -> list[str]:
        """The commits that a deploy brought, each with its first line.

        Args:
            deploy: The number of the deploy.
        """
        return _CHANGES[deploy]

    @tool
    async def probe(self, region: str) -> dict[str, int]:
        """Place one test order in a region and measure how long it takes, in milliseconds.

        Args:
            region: The city of the data centre.
        """
        # There is one test customer, who orders once at a time: of a fan-out, only the first is served at once.
        ahead = self._test_orders
        self._test_orders += 1
        try:
            await asyncio.sleep(ahead * _ORDER_SECONDS)
        finally:
            self._test_orders -= 1
        return {"ms": _REGIONS[region]}

    @tool
    async def rollback(self, deploy: int) -> dict[str, Any]:
        """Make an earlier deploy live again. Changes production.

        Args:
            deploy: The number of the deploy that is to be live.
        """
        self._live = deploy
        return {"live": deploy, "at": "14:31", "checkout_ms": _RECOVERED}


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
