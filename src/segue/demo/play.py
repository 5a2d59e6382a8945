"""Runs the demo: the emulators on loopback, one chat through all of them, then its history as a naive client sends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from segue.chat.chat import Chat
from segue.conversation.message import Conversation
from segue.conversation.usage import Usage
from segue.demo import naive_client
from segue.demo.story import Shop
from segue.demo.wire_log import LoggedProvider, WireLog
from segue.dialects.registry import DIALECTS
from segue.emulators.emulator import Entry
from segue.emulators.script import Script, perform
from segue.emulators.server import Served, serve
from segue.errors import ProviderError, SegueError
from segue.events import ChatEvent, Compaction, Switch, ToolCallResult, TurnComplete
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses, path_of
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.demo.screen import DemoScreen
    from segue.demo.story import Story, StoryTurn, Wire
    from segue.providers.provider import Provider
    from segue.routing.router import Model

_BREATH = 20
"""The pause after a turn, in delays."""
_AT_ONCE = RetrySettings(attempts=1)
"""A router with another provider to ask: readers need not wait for a retry."""


@final
class DemoResult(Struct, frozen=True):
    """The log of the emulators: one entry for each request, with its verdict."""

    all_wires: int
    rendered: tuple[Entry, ...]
    """Requests of the story."""
    unrepaired: tuple[Entry, ...]
    """Requests with the unrepaired history."""
    broken: bool
    """Whether a turn of the story failed."""
    conversation: Conversation
    """The conversation before it was compacted."""

    @property
    def well(self) -> bool:
        return not self.broken and self.accepted == self.sent and self.wires == self.all_wires

    @property
    def sent(self) -> int:
        """Requests of the story with a verdict; a failure counts, whatever its cause."""
        return self.accepted + max(count(self.rendered, "refused"), int(self.broken))

    @property
    def accepted(self) -> int:
        return count(self.rendered, "accepted")

    @property
    def wires(self) -> int:
        """Wire formats that accepted a request."""
        return len({(entry.provider, entry.path) for entry in self.rendered if entry.verdict == "accepted"})

    @property
    def refused_unrepaired(self) -> int:
        return count(self.unrepaired, "refused")


def count(entries: Sequence[Entry], verdict: str) -> int:
    return sum(entry.verdict == verdict for entry in entries)


def play(story: Story, screen: DemoScreen, *, delay: float = 0.0) -> DemoResult:
    """Play the story. `delay`: seconds between the portions of a stream, for people to read along."""
    with serve() as served:
        screen.opening(served.base_url, len(story.wires))
        outcome = asyncio.run(_Play(story, served, screen, delay).run())
    screen.closing(outcome)
    return outcome


class _Play:
    def __init__(self, story: Story, served: Served, screen: DemoScreen, delay: float) -> None:
        self._story = story
        self._emulator = served.emulator
        self._screen = screen
        self._delay = delay
        self._log = WireLog()
        self._providers = {
            wire.provider: LoggedProvider(_connect(served, wire.provider), self._log)
            for wire in story.wires.values()
        }
        self._conversation = Conversation()

    async def run(self) -> DemoResult:
        story = self._story
        async with Chat(
            self._model(story.turns[0]), tools=Shop().tools, system=story.system, providers=self._providers
        ) as chat:
            broken = await self._run_turns(chat)
            rendered = tuple(self._emulator.log)
            if not broken:
                await self._send_unrepaired(chat)
        return DemoResult(
            all_wires=len(story.wires),
            rendered=rendered,
            unrepaired=tuple(self._emulator.log)[len(rendered) :],
            broken=broken,
            conversation=self._conversation,
        )

    async def _run_turns(self, chat: Chat) -> bool:
        """Run all turns, or until one is refused; returns whether one was."""
        for number, turn in enumerate(self._story.turns, 1):
            if number > 1:
                await chat.switch(self._model(turn))
            error = await self._run_turn(number, turn, chat)
            if error is not None:
                self._screen.refused(error)
                return True
            await asyncio.sleep(self._delay * _BREATH)
        return False

    def _model(self, turn: StoryTurn) -> Model:
        """The route of a turn, or the router that chooses it."""
        first, *others = self._story.routes(turn)
        if not others:
            return first
        members = {route.name: route for route in (first, *others)}
        profile = Profile(name=" or ".join(turn.wires), members=tuple(members), retry=_AT_ONCE)
        return build_router(profile, facts_from(self._providers), resolve=members.__getitem__)

    async def _run_turn(self, number: int, turn: StoryTurn, chat: Chat) -> SegueError | None:
        """One turn, shown while it happens; returns its error, if any."""
        replies = tuple(structs.replace(reply, delay=self._delay) for reply in turn.replies)
        perform(Script(replies=replies, faults=turn.faults), self._emulator)
        before = len(self._emulator.log)
        self._screen.begin_turn(number, self._story.wires[turn.wires[0]], turn)
        ended, usage, whole = 0, Usage(), True
        async for event in chat.stream(turn.user, *turn.shown):
            self._show(event)
            whole = whole and type(event) is not Compaction
            ended += type(event) is ToolCallResult
            if type(event) is TurnComplete:
                usage = event.usage
            elif ended == turn.cancel_after:
                chat.cancel()
        if whole:
            self._conversation = chat.conversation
        if chat.answer is not None and chat.answer.error is not None:
            return chat.answer.error
        accepted = count(tuple(self._emulator.log)[before:], "accepted")
        if self._log.last is not None:
            self._screen.arrived(self._log.last, usage, accepted)
        return None

    def _show(self, event: ChatEvent) -> None:
        log, screen = self._log, self._screen
        # A chat has no event for reasoning without text; the log has it before the next event is shown.
        if log.take_sealed():
            screen.sealed()
        if type(event) is Switch and log.error is not None:
            screen.failed_over(log.error, self._story.wire(event.model))
        elif type(event) is Compaction:
            screen.shortened(event, log.narrator)
        else:
            screen.event(event)

    async def _send_unrepaired(self, chat: Chat) -> None:
        """Send the history as it is to every wire format."""
        self._screen.unrepaired()
        for wire in self._story.wires.values():
            body = naive_client.body(self._conversation, chat.ledger, wire)
            self._screen.judged(wire, await _refusal(self._providers[wire.provider].provider, wire, body))


def _connect(served: Served, provider: str) -> Provider:
    """The provider as configured by default, at the address of its emulator, which has the same paths."""
    path = urlsplit(addresses().providers[provider].base_url).path
    config = ProviderConfig(base_url=served.url(provider) + path, api_key=Secret("demo"))
    return connect(provider, config, environ={}, keyring=False)


async def _refusal(provider: Provider, wire: Wire, body: bytes) -> ProviderError | None:
    endpoint = structs.replace(provider.endpoint, dialect=DIALECTS[wire.dialect])
    path = path_of(wire.dialect, wire.model)
    try:
        async with endpoint.ask("POST", path, body) as answer:
            await answer.read()
    except ProviderError as error:
        return error
    return None
