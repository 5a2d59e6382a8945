"""What is recorded of requests and conversations: figures always, content where it is recorded at all."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, field

from segue.conversation.message import Conversation, Message
from segue.conversation.usage import NO_USAGE, Usage
from segue.dialects.registry import DIALECTS
from segue.errors import SegueError
from segue.gateway.conversations.turns import ClientTurn
from segue.gateway.prompt_caches.forecasts import CacheOutcome
from segue.inspector.record.first_words import folder_of, title_of
from segue.inspector.record.pieces import KeptBody
from segue.transcript.adopt import adopt
from segue.transcript.repairs import Repair

_MOST_PLACES: Final = 10_000
RunState: TypeAlias = Literal["idle", "tools run", "failed"]


@final
class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was put to one route."""

    route: str
    after: float
    """Seconds after the request came."""
    seconds: float
    first_bytes: float | None = None
    """Seconds after it began, as the next."""
    first_content: float | None = None
    error: str = ""
    """Its code; empty if it succeeded."""
    status: int | None = None
    words: str = ""
    """The provider's own, without keys."""
    forwarded: bool = False
    usage: Usage = NO_USAGE
    dollars: float | None = None
    dialect: str = ""
    url: str = ""


@final
class RequestContent(Struct, kw_only=True):
    """What was said."""

    client: KeptBody
    provider: KeptBody | None = None
    answer: Message | None = None


@final
class RequestRecord(Struct, kw_only=True):
    """One request for a reply, from its client to its end."""

    id: str
    conversation: str
    caller: str
    number: int = 0
    """Within its conversation, counted from 1."""
    turn: int = 0
    """Of its conversation, counted from 1."""
    began: float = 0.0
    seconds: float = 0.0
    first_content: float | None = None
    ready: float = 0.0
    """Seconds until its first attempt: read, identified, admitted, planned."""
    client: str = ""
    method: str = ""
    path: str = ""
    wire: str = ""
    asked: str = ""
    switched: str = ""
    """The model that somebody chose for the conversation; empty if the client's name decides."""
    route: str = ""
    dialect: str = ""
    """In which the provider got it."""
    status: int = 0
    stream: bool = False
    forwarded: bool = False
    begins_turn: bool = False
    stays: bool = False
    """It continues a turn, so it stays with the route that made the calls."""
    messages: int = 0
    tools: int = 0
    restored: int = 0
    """Replies in the client's history whose originals, with their signatures, were put back."""
    missing: int = 0
    request_bytes: int = 0
    reply_bytes: int = 0
    usage: Usage = NO_USAGE
    usage_estimated: bool = False
    dollars: float | None = None
    repairs: tuple[Repair, ...] = ()
    attempts: tuple[AttemptRecord, ...] = ()
    failovers: int = 0
    error: str = ""
    client_gone: bool = False
    finish: str = ""
    calls: int = 0
    """That the answer makes."""
    cache: CacheOutcome | None = None
    """What became of the provider's cache, as far as that is known."""
    content: RequestContent | None = None
    """None if it was not recorded, or is forgotten."""

    @property
    def losses(self) -> tuple[Repair, ...]:
        return tuple([repair for repair in self.repairs if repair.lossy])

    @property
    def end(self) -> float:
        return self.began + self.seconds


@final
class DayFigures(Struct):
    """What the requests of one caller came to on one day of this machine's clock."""

    requests: int = 0
    dollars: float | None = None
    counted_tokens: int = 0
    """Input of requests whose provider says what it read from its cache."""
    cached_tokens: int = 0
    repairs: int = 0
    losses: int = 0
    refused: int = 0
    failovers: int = 0

    def add(self, request: RequestRecord) -> None:
        usage = request.usage
        self.requests += 1
        if request.dollars is not None:
            self.dollars = (self.dollars or 0.0) + request.dollars
        if usage.cached_tokens is not None:
            self.counted_tokens += usage.input_tokens or 0
            self.cached_tokens += usage.cached_tokens
        self.repairs += len(request.repairs)
        self.losses += len(request.losses)
        self.refused += bool(request.error)
        self.failovers += request.failovers

    def join(self, other: DayFigures) -> None:
        for name in self.__struct_fields__:
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, mine if more is None else (mine or 0) + more)


@final
class ConversationSums(Struct):
    """What the requests of a conversation come to."""

    usage: Usage = NO_USAGE
    dollars: float | None = None
    repairs: int = 0
    """In all requests, as the figures of a day have them: of a long history the same places are repaired at each request."""
    losses: int = 0
    """Of these repairs."""
    places: set[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=set)
    """That were repaired for one route, each counted once."""

    def add(self, request: RequestRecord) -> None:
        self.usage = self.usage.plus(request.usage)
        if request.dollars is not None:
            self.dollars = (self.dollars or 0.0) + request.dollars
        self.repairs += len(request.repairs)
        self.losses += len(request.losses)
        for repair in request.repairs:
            if len(self.places) < _MOST_PLACES:
                self.places.add((request.route, repair.kind, repair.path, repair.call_ids))


@final
class ConversationRecord(Struct, kw_only=True):
    """All requests of one conversation that this process saw."""

    id: str
    caller: str
    client: str = ""
    wire: str = ""
    asked: str = ""
    first_words: str = ""
    workplace: str = ""
    has_words: bool = False
    """Whether these two were read: they are when somebody looks, or when what was said is forgotten."""
    created: float = 0.0
    updated: float = 0.0
    state: RunState = "idle"
    """After its last request that has ended."""
    switched: str = ""
    requests: deque[RequestRecord] = field(default_factory=deque)
    request_count: int = 0
    turns: int = 0
    routes: list[str] = field(default_factory=list)
    """That ended each turn, in order."""
    several: bool = False
    """Whether more than one route answered."""
    uncounted: list[RequestRecord] = field(default_factory=list)
    """Requests that are not in the sums yet: they are counted when somebody looks."""
    sums: ConversationSums = field(default_factory=ConversationSums)
    last_turn: ClientTurn | None = None
    """The newest request as the gateway understood it: what another model would get is made of it."""
    last_answer: Message | None = None

    @property
    def title(self) -> str:
        """Its first words; empty where content is not recorded."""
        self.read_words()
        return self.first_words

    @property
    def folder(self) -> str:
        """Where its client works, if it says so."""
        self.read_words()
        return self.workplace

    def read_words(self) -> None:
        said = self.conversation if not self.has_words else None
        if said is None:
            return
        self.first_words, self.workplace = title_of(said), folder_of(said)
        self.has_words = bool(self.first_words)

    @property
    def route(self) -> str:
        """That answered last."""
        return self.routes[-1] if self.routes else ""

    def counted(self) -> ConversationSums:
        """Of all its requests, also of those that are forgotten."""
        for request in self.uncounted:
            self.sums.add(request)
        self.uncounted.clear()
        return self.sums

    @property
    def usage(self) -> Usage:
        return self.counted().usage

    @property
    def dollars(self) -> float | None:
        return self.counted().dollars

    @property
    def repairs(self) -> int:
        """In all its requests, each counted in each request that it was made in."""
        return self.counted().repairs

    @property
    def distinct_repairs(self) -> int:
        """The same places counted once for each route."""
        return len(self.counted().places)

    @property
    def losses(self) -> int:
        return self.counted().losses

    @property
    def conversation(self) -> Conversation | None:
        """Up to its last reply; None if content is not recorded."""
        answer = self.last_answer
        if self.last_turn is not None:
            said = self.last_turn.conversation
        else:
            content = self.requests[-1].content if self.requests else None
            read = said_in(content.client.data(), self.requests[-1].wire) if content is not None else None
            if content is None or read is None:
                return None
            said, answer = read, content.answer
        return said if answer is None else said.append(answer)

    @property
    def cache_share(self) -> float | None:
        """Of all input, what was read from caches; None if no provider counts that."""
        usage = self.usage
        if usage.cached_tokens is None or not usage.input_tokens:
            return None
        return usage.cached_tokens / usage.input_tokens


def said_in(body: bytes, wire: str) -> Conversation | None:
    """What a request of this wire says; None if it cannot be read."""
    try:
        dialect = DIALECTS[wire]
        read = dialect.decode_request(msgspec.json.decode(body))
        return adopt(read.messages, system=read.system, dialect=wire, rules=dialect.rules).conversation
    except (msgspec.DecodeError, SegueError, KeyError, TypeError, AttributeError, ValueError):
        return None
