"""One exchange over HTTP, and one turn of them: render, encode, send, decode while it arrives, fold, run the tools.

This is how any client uses segue; nothing in it knows that an emulator answers.
"""

from __future__ import annotations

from hashlib import blake2b
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Media, Seal
from segue.conversation.events import Event, Reply, fold
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, tool, user
from segue.demo.script import Route
from segue.demo.tools import TOOLS, run
from segue.dialects.all import DIALECTS
from segue.dialects.card import fit_rules
from segue.errors import ProviderError, SegueError, TransportError
from segue.providers.cards import card_for_model
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.repairs import Repair
from segue.transcript.steps import ModelStep, Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.blocks import Block, ToolCall
    from segue.demo.script import Interrupt
    from segue.dialects.dialect import Dialect

SECONDS = 15.0
"""How long to wait for any portion of an answer."""
_POLICY = Policy(
    tool_names=tuple(spec.name for spec in TOOLS),
    surroundings=blake2b(msgspec.json.encode(TOOLS), digest_size=8).hexdigest(),
)


@final
class Exchange(Struct, frozen=True):
    """One request and its reply, and what it took to make the request sayable."""

    route: Route
    transcript: Transcript
    reply: Reply
    repairs: tuple[Repair, ...]
    replayed: tuple[Seal, ...]
    """What the target sealed itself and now gets back."""
    bound: bool
    """Whether its seals hold only under the exact prefix they were made under."""


@final
class State(Struct, frozen=True):
    """The conversation so far, and the ledger of its calls."""

    conversation: Conversation
    ledger: Ledger


class Listener(Protocol):
    """Who is told what happens, while it happens."""

    def event(self, event: Event) -> None: ...

    def called(self, interaction: Interaction) -> None: ...

    def failed_over(self, error: SegueError, following: Route) -> None: ...


def exchange(state: State, route: Route, address: str, listener: Listener) -> Exchange:
    """Ask a model what comes next. Raises what the provider refused, as an error with a remedy."""
    dialect = DIALECTS[route.dialect]
    card = card_for_model(route.model, route.dialect)
    rules = dialect.rules.at(provider=route.provider, endpoint=address, model=route.model)
    rules = fit_rules(rules, card)
    transcript = render(state.conversation, state.ledger, rules, _POLICY)
    options = structs.replace(route.options, model=route.model, stream=True)
    encoded = dialect.encode_request(transcript, TOOLS, options, card)
    events: list[Event] = []
    for event in _ask(dialect, route, address, encoded.body):
        listener.event(event)
        events.append(event)
    reply = fold(events, rules.target, made_under=transcript.fingerprint)
    if reply.error is not None:
        raise reply.error
    repairs = (*transcript.repairs, *encoded.repairs)
    replayed = tuple(_replayed(transcript, rules.reasoning.call_seal))
    return Exchange(route, transcript, reply, repairs, replayed, rules.reasoning.bound)


def _replayed(transcript: Transcript, stand_in: str) -> Iterator[Seal]:
    for step in transcript.steps:
        for block in step.blocks if type(step) is ModelStep else ():
            seal = None if type(block) is Media else block.seal
            if seal is not None and seal.payload != stand_in:
                yield seal


def _ask(dialect: Dialect, route: Route, address: str, body: bytes) -> Iterator[Event]:
    decoder = dialect.new_decoder()
    for portion in post(address, route, body, dialect):
        yield from decoder.feed(portion)
    yield from decoder.close()


def post(address: str, route: Route, body: bytes, dialect: Dialect) -> Iterator[bytes]:
    """Send a request; the answer in the portions in which it arrives."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=SECONDS)
    headers = {"content-type": "application/json", **route.headers}
    try:
        connection.request("POST", f"/{route.provider}{route.path}", body, headers)
        response = connection.getresponse()
        if response.status != 200:
            raise _refusal(dialect, response)
        while portion := response.read1(65_536):
            yield portion
    except (OSError, HTTPException) as error:
        raise TransportError(f"{route.title} broke off: {error}.") from error
    finally:
        connection.close()


def _refusal(dialect: Dialect, response: HTTPResponse) -> ProviderError:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return dialect.decode_error(response.status, headers, response.read())


def take_turn(
    state: State,
    said: tuple[Block | str, ...],
    routes: tuple[Route, ...],
    address: str,
    listener: Listener,
    *,
    interrupt: Interrupt | None = None,
) -> tuple[State, tuple[Exchange, ...]]:
    """From a user's message to a reply without calls, or to the user's interrupting it.

    Only the first exchange may go to another route: once a model has begun a turn, the turn is its own.
    """
    state = State(state.conversation.append(user(*said)), state.ledger)
    done = [_first(state, routes, address, listener)]
    while True:
        state = State(state.conversation.append(done[-1].reply.message), state.ledger)
        calls = state.conversation.messages[-1].calls
        if not calls:
            return state, tuple(done)
        stops = interrupt is not None and interrupt.round == len(done)
        state = _run_tools(state, calls, listener, interrupt.results if interrupt and stops else len(calls))
        if stops:
            return state, tuple(done)
        done.append(exchange(state, done[0].route, address, listener))


def _first(state: State, routes: tuple[Route, ...], address: str, listener: Listener) -> Exchange:
    for route, following in pairwise(routes):
        try:
            return exchange(state, route, address, listener)
        except SegueError as error:
            if error.remedy != "go_elsewhere":
                raise
            listener.failed_over(error, following)
    return exchange(state, routes[-1], address, listener)


def _run_tools(state: State, calls: tuple[ToolCall, ...], listener: Listener, most: int) -> State:
    """All calls are opened before the first one runs, so the ledger knows of those that never come to an end."""
    ledger = state.ledger
    for call in calls:
        ledger.schedule(call)
    finished = [run(call) for call in calls[:most]]
    for result in finished:
        listener.called(ledger.settle(result))
    for call in calls[most:]:
        listener.called(ledger.cancel(call.id, "cancelled_by_user"))
    return State(state.conversation.append(tool(*finished)), ledger)
