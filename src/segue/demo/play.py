"""The whole demo: the emulators on loopback, the story turn by turn, then its history unrepaired."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, TypeAlias, final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, user
from segue.demo import naive
from segue.demo.hops import SECONDS, State, post, take_turn
from segue.demo.script import Route
from segue.dialects.all import DIALECTS
from segue.emulators.script import Script, perform
from segue.emulators.server import Served, serve
from segue.errors import ProviderError, SegueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block
    from segue.demo.script import Compaction, Story, Turn
    from segue.demo.show import Screen

Entry: TypeAlias = dict[str, Any]
_BREATH = 20
"""So many delays make the pause after a turn."""


@final
class Outcome(Struct, frozen=True):
    """How it went, told by the emulators' own log: one entry for each request, with its verdict."""

    routes: tuple[Route, ...]
    rendered: tuple[Entry, ...]
    """What was asked in the story."""
    unrepaired: tuple[Entry, ...]
    """What was asked afterwards."""
    broken: bool
    """Whether the story came to a stop."""
    conversation: Conversation

    @property
    def well(self) -> bool:
        return not self.broken and self.accepted == self.sent and self.wires == len(self.routes)

    @property
    def sent(self) -> int:
        """Requests of the story that were judged; what broke it counts, whoever is to blame."""
        return self.accepted + max(count(self.rendered, "refused"), int(self.broken))

    @property
    def accepted(self) -> int:
        return count(self.rendered, "accepted")

    @property
    def wires(self) -> int:
        """How many of the routes accepted something."""
        taken = [(e["provider"], e["path"]) for e in self.rendered if e["verdict"] == "accepted"]
        return sum((route.provider, route.path.partition("?")[0]) in taken for route in self.routes)

    @property
    def refused_unrepaired(self) -> int:
        return count(self.unrepaired, "refused")


def count(entries: Sequence[Entry], verdict: str) -> int:
    return sum(entry["verdict"] == verdict for entry in entries)


def play(story: Story, screen: Screen, *, delay: float = 0.0) -> Outcome:
    """Play the story. `delay`: seconds between the portions of a stream, for people to read along."""
    with serve() as served:
        screen.opening(served.base_url, len(story.routes))
        state, broken = _tell(story, served, screen, delay)
        rendered = _log(served)
        if not broken:
            _send_unrepaired(story, state, served.base_url, screen)
        outcome = Outcome(
            routes=tuple(story.routes.values()),
            rendered=rendered,
            unrepaired=_log(served)[len(rendered) :],
            broken=broken,
            conversation=state.conversation,
        )
    screen.closing(outcome)
    return outcome


def _tell(story: Story, served: Served, screen: Screen, delay: float) -> tuple[State, bool]:
    """The turns until the end, or until one is refused."""
    state = State(Conversation(system=story.system), Ledger())
    for number, turn in enumerate(story.turns, 1):
        if turn.compaction is not None:
            state = State(_compact(state.conversation, turn.compaction), state.ledger)
            screen.compacted(turn.compaction)
        try:
            state = _hop(number, turn, story, state, served, screen, delay)
        except SegueError as error:
            screen.refused(error)
            return state, True
    return state, False


def _hop(
    number: int, turn: Turn, story: Story, state: State, served: Served, screen: Screen, delay: float
) -> State:
    routes = tuple(story.routes[name] for name in turn.routes)
    replies = tuple(structs.replace(reply, delay=delay) for reply in turn.replies)
    perform(Script(replies=replies, faults=turn.faults), served.emulator)
    before = len(_log(served))
    screen.asked(number, routes[0], turn)
    said: tuple[Block | str, ...] = (turn.user, *turn.shown)
    state, done = take_turn(state, said, routes, served.base_url, screen, interrupt=turn.interrupt)
    screen.arrived(done, state.ledger, count(_log(served)[before:], "accepted"))
    time.sleep(delay * _BREATH)
    return state


def _compact(conversation: Conversation, compaction: Compaction) -> Conversation:
    said = conversation.messages
    kept = (*said[: compaction.first], user(compaction.note), *said[compaction.last + 1 :])
    return structs.replace(conversation, messages=kept)


def _send_unrepaired(story: Story, state: State, address: str, screen: Screen) -> None:
    """The history as it is, to every wire."""
    screen.unrepaired()
    for route in story.routes.values():
        body = naive.body(state.conversation, state.ledger, route)
        refusal: ProviderError | None = None
        try:
            for _ in post(address, route, body, DIALECTS[route.dialect]):
                pass
        except ProviderError as error:
            refusal = error
        screen.judged(route, refusal)


def _log(served: Served) -> tuple[Entry, ...]:
    connection = HTTPConnection(urlsplit(served.base_url).netloc, timeout=SECONDS)
    try:
        connection.request("GET", "/_emulator/log")
        return tuple(json.loads(connection.getresponse().read())["entries"])
    finally:
        connection.close()
