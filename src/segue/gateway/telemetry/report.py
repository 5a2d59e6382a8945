"""What a request came to, without its content: for the access log and for statistics."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, final

from msgspec import Struct, field

from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.exchange.handovers import Handover
from segue.gateway.prompt_caches.forecasts import CacheOutcome
from segue.providers.headroom import Headroom

if TYPE_CHECKING:
    from segue.gateway.memory.histories import Originals


class AttemptReport(Struct, kw_only=True):
    """A turn that is put to one route."""

    route: str
    began: float
    """Seconds since 1970."""
    seconds: float = 0.0
    error: str = ""
    handovers: list[Handover] = []
    """What was sent to its provider: several requests if the model had to be asked again."""


@final
class Expense(Struct, frozen=True):
    """What one request to a provider came to."""

    route: str
    usage: Usage
    dollars: float | None
    """None if its price is not known."""


class RequestReport(Struct, kw_only=True):
    """Filled in while the request is served."""

    request_id: str
    method: str = ""
    path: str = ""
    wire: str = ""
    operation: str = ""
    caller: str = ""
    client: str = ""
    """The User-Agent."""
    asked: str = ""
    """The model's name that the client asked for."""
    route: str = ""
    """provider/model that answered."""
    conversation: str = ""
    status: int = 0
    stream: bool = False
    forwarded: bool = False
    """The bytes went through as they were."""
    seconds: float = 0.0
    first_content: float | None = None
    """Seconds until the provider sent something of the reply."""
    request_bytes: int = 0
    reply_bytes: int = 0
    warm_bytes: dict[str, int] = {}
    """Kept in the process for the next requests of conversations, by kind, at the end of this one."""
    held_bytes: int = 0
    """Held in the process by all that runs then."""
    headroom: dict[str, tuple[Headroom, ...]] = {}
    """What the routes that were asked have left of their limits."""
    usage: Usage = Usage()
    """Of all requests to providers together."""
    usage_estimated: bool = False
    """A provider did not report it."""
    dollars: float | None = None
    """What that cost; None if it is not known."""
    expenses: tuple[Expense, ...] = ()
    """The same one by one."""
    cache: CacheOutcome | None = None
    """What became of the provider's cache; None if nothing is known of it."""
    repairs: dict[str, int] = {}
    losses: dict[str, int] = {}
    attempts: int = 0
    failovers: int = 0
    client_gone: bool = False
    error: str = ""
    """The code of the error that the client got."""
    began: float = 0.0
    """Seconds since 1970."""
    trace_parent: str = ""
    """The client's `traceparent` header."""
    started: float = field(default_factory=monotonic)
    """When it came, by the clock that all its times are taken from."""
    tries: list[AttemptReport] = []
    restored: int = 0
    """Replies in the client's history whose originals were put back."""
    missing: int = 0
    """Replies in the client's history that are not remembered: older than the gateway, of others, or forgotten."""
    store_failed: bool = False
    """They may be remembered, but the store could not be read."""
    known_messages: int = 0
    """Of the client's history, from its start: they were known from the last request and not read again."""
    store_seconds: float = 0.0
    """Remembering the reply."""
    messages: tuple[Message, ...] = ()
    """The content: only for traces that were asked to record it, never for the log."""
    answer: Message | None = None

    def moment_of(self, at: float) -> float:
        """Seconds since 1970 of a time of the monotonic clock: a wall clock that is set meanwhile moves no attempt."""
        return self.began + (at - self.started)

    def describe_history(self, messages: tuple[Message, ...], originals: Originals) -> None:
        """What the client sent before, and what of it was known."""
        self.messages = messages
        self.restored = len(originals.replies)
        self.missing = [message.speaker for message in messages].count("model") - self.restored
        self.store_failed = originals.failed
        self.known_messages = originals.known
