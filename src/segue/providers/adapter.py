"""The interface of a provider: subclass it to write your own.

A `ProviderAdapter` needs a `name` and a `chat_stream`; what it can do besides chat it sets in `capabilities`.
"""

from __future__ import annotations

from asyncio import Event as Abort
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Reply, fold
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.replies.response_view import as_response
from segue.providers.capabilities import Capabilities
from segue.providers.requests.request_writer import KeptPlans
from segue.transcript.policy import Policy
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from segue.dialects.card import ModelCard
    from segue.providers.headroom import HeadroomBook


@final
class ChatRequest(Struct, frozen=True, kw_only=True):
    """One request to a provider. The conversation is canonical: the provider renders it for its own wire."""

    model: str
    conversation: Conversation
    ledger: Ledger | None = None
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    context: int | None = None
    """Tokens of request and reply together, where the user has set it; None: as many as the model takes."""
    policy: Policy = Policy()
    session: str = ""
    """Requests of one session may reuse the rendered and encoded messages of the previous one."""
    plans: KeptPlans | None = None
    """Where that is kept; None: at the provider."""
    asks_for_cache: bool = True
    """Whether a session's prompt should be kept by providers that cache it only when asked to."""
    headers: Mapping[str, str] = {}
    """Headers of a client of the same API, sent in addition to the provider's own."""
    came: bytes = b""
    """The bytes of the request of such a client: what is unchanged is sent in these bytes."""
    since_reply: bool = False
    """Whether only what follows the last reply is sent, since the provider holds the rest: its options name where."""
    abort: Abort | None = None
    """Set it, and the stream ends with one `Finished("cancelled")`."""


@final
class RequestSent(Struct, frozen=True, kw_only=True):
    """The first event of a stream: which model writes the reply, and the repairs of the request."""

    origin: Origin
    made_under: str = ""
    """Fingerprint that the seals of the reply are bound to."""
    repairs: tuple[Repair, ...] = ()
    """Of the transcript, of tools and of options: also settings that the provider does not know."""
    body: bytes = b""
    url: str = ""
    """Without the key, also where a provider wants it in the address."""


StreamEvent: TypeAlias = RequestSent | Event
"""What a provider sends: first the request as it went out, then the reply piece by piece."""


TakeEvents: TypeAlias = Callable[[list[StreamEvent]], Awaitable[None] | None]
"""Gets events of a reply by a plain call. What it gives back is waited for before it gets more. It may raise `EnoughError`."""


class EnoughError(Exception):
    """Raised by who takes events and wants no more: the connection is closed, and who pushes them passes it on."""


def fold_stream(events: Iterable[StreamEvent], origin: Origin = Origin()) -> Reply:  # noqa: B008 - frozen
    """Make a reply of a provider's stream. `origin`: who writes it, if the stream ended before that was known."""
    received, made_under = list[Event](), ""
    for event in events:
        if type(event) is RequestSent:
            origin, made_under = event.origin, event.made_under
        else:
            received.append(event)
    return fold(received, origin, made_under=made_under)


Feature: TypeAlias = Literal["tools", "stream"]
"""What a model may turn out to lack: tools that it calls natively, replies that arrive piece by piece."""


class ProviderAdapter(Protocol):
    """Sends requests to models and streams their replies."""

    name: str
    capabilities: Capabilities = Capabilities()
    headroom: HeadroomBook | None = None
    """The rate limits that its replies reported; None if they are not read."""
    _lacks: frozenset[tuple[str, Feature]] = frozenset()

    def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """The reply while it arrives.

        Begins with `RequestSent`, unless it fails or is cancelled before. Never raises once it has started: what goes
        wrong is reported as `Failed`. Exactly one `Finished` or `Failed` ends it. Closing it closes the connection at
        once.
        """
        ...

    def card(self, model: str) -> ModelCard | None:
        """What is known about a model, without a request; None if nothing is."""
        del model
        return None

    def lacks(self, model: str, feature: Feature) -> bool:
        """Whether a model has refused something, as far as this process has seen."""
        return (model, feature) in self._lacks

    def wait_for_limit(self, model: str) -> float:
        """Seconds until a request for a model can succeed, as far as its replies have reported."""
        return 0.0 if self.headroom is None else self.headroom.wait(model)

    def learn_lack(self, model: str, feature: Feature) -> None:
        """Note that a model refuses this: from now on it is asked without. The only place where that is kept."""
        self._lacks |= {(model, feature)}

    def takes_tools(self, model: str) -> bool:
        """Whether a model can be offered tools as they are; else they are described to it in words."""
        card = self.card(model)
        return (card is None or card.tools) and not self.lacks(model, "tools")

    def takes_schema(self, request: ChatRequest) -> bool:
        """Whether the answer is held to the schema of a request; else the model reads the schema in words."""
        del request
        return False

    async def generate_chat(self, request: ChatRequest) -> dict[str, Any]:
        """The whole reply as one plain record; see `segue.dialects.replies.response_view`. Raises what went wrong."""
        reply = fold_stream([event async for event in self.chat_stream(request)])
        if reply.error is not None:
            raise reply.error
        return as_response(reply)


class Providers(Protocol):
    """Finds providers by their names: a `ProviderRegistry`, or a plain dict."""

    def get(self, name: str, /) -> ProviderAdapter | None: ...
