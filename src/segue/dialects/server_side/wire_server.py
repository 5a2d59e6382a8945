"""What a server of a wire format has to know besides requests and replies: paths, keys, headers, lists of models.

A gateway reads these facts and has none of its own. Every dialect gives its `ServerFacts` in its `server.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

from msgspec import Raw, Struct

from segue.dialects.server_side.continuations import Continuations
from segue.dialects.server_side.references import ReferenceField, holds_mark
from segue.errors import SegueError

if TYPE_CHECKING:
    from datetime import datetime

Operation: TypeAlias = Literal[
    "chat",
    "generate",
    "count_tokens",
    "compact",
    "embed",
    "complete",
    "moderate",
    "list_models",
    "show_model",
    "get_reply",
    "delete_reply",
    "cancel_reply",
    "list_input",
    "conversation",
    "cache_content",
    "cached_content",
    "batch",
    "version",
    "hello",
    "refuse",
]
"""What a path of a server does. `generate`: one prompt instead of messages. `conversation`: conversations that the server keeps,
and their items. `cache_content`: hold what requests build on. `batch`: batches, and the files that they are made of. `refuse`:
something that nobody can have here, so that its clients are told so and get nothing of another wire."""


class Reframe(Protocol):
    """Changes the frames of a stream or the body of a whole reply, for paths that frame the same events differently."""

    stream_type: str
    """Of a stream that is framed so."""

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...


@final
class ServerPath(Struct, frozen=True, kw_only=True):
    """One path of a server. In a pattern `{model}` may hold slashes, others may not. What a path names as the model counts more
    than what the body does."""

    operation: Operation
    method: str = "POST"
    pattern: str
    stream: bool | None = None
    """Whether this path streams, on wires that decide it by the path."""
    drops: tuple[str, ...] = ()
    """Fields that belong to the path, of a cloud that serves the wire in an envelope of its own."""
    betas_field: str = ""
    """A list in that envelope, which is a header on the wire itself (`beta_headers`)."""
    frames: Callable[[], Reframe] | None = None
    """How such a cloud writes replies, if not as the wire's home does."""
    provider: str = ""
    """Such a cloud, which a client on this path asks without us; empty for the wire's home."""


def batch_paths(*paths: str) -> tuple[ServerPath, ...]:
    """Paths of batches and files, each as `METHOD /path`."""
    return tuple(
        ServerPath(operation="batch", method=method, pattern=pattern)
        for method, _, pattern in (path.partition(" ") for path in paths)
    )


@final
class ServedModel(Struct, frozen=True, kw_only=True):
    """A model as a server offers it."""

    id: str
    title: str = ""
    owner: str = ""
    context: int | None = None
    output: int | None = None
    tools: bool = True
    images: bool = False
    reasoning: bool = False
    embedding: bool = False


@final
class EmbeddingRequest(Struct, frozen=True, kw_only=True):
    """Texts whose vectors a client asks for."""

    texts: tuple[str, ...]
    dimensions: int | None = None
    base64: bool = False
    """Vectors as base64 of 32-bit floats instead of numbers."""
    single: bool = False
    """The reply holds one vector and no list, on wires that differ in that."""


class EmbeddingsEncoder(Protocol):
    """Vectors as the wire writes them. `tokens`: of all texts."""

    def __call__(
        self, request: EmbeddingRequest, vectors: Sequence[Sequence[float]], *, model: str, tokens: int
    ) -> bytes: ...


@final
class RateStanding(Struct, frozen=True):
    """A limit per minute, what is left of it, and the seconds until it is whole again."""

    limit: int
    left: int
    reset: float


@final
class CallerStanding(Struct, frozen=True, kw_only=True):
    """How far a caller's limits are used up. None: there is no such limit."""

    requests: RateStanding | None = None
    tokens: RateStanding | None = None
    budget_share: float | None = None
    """1.0: all of it is spent."""
    budget_reset: float = 0.0
    """The moment, in seconds since 1970, when the budget is whole again."""


def rate_headers(standing: CallerStanding) -> dict[str, str]:
    """In the form that most clients know (OAI-03)."""
    headers: dict[str, str] = {}
    for name, rate in (("requests", standing.requests), ("tokens", standing.tokens)):
        if rate is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(rate.limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(rate.left)
            headers[f"x-ratelimit-reset-{name}"] = f"{rate.reset:.3f}s"
    return headers


def error_headers(error: SegueError) -> dict[str, str]:
    """Headers of an error that clients of most wires read: how long to wait."""
    seconds = getattr(error, "retry_after", None)
    return {} if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}


def error_headers_with_advice(error: SegueError) -> dict[str, str]:
    """With the header by which some SDKs decide whether to send the same request again."""
    headers = error_headers(error)
    if error.remedy in ("fix", "log_in", "pay", "shrink"):
        headers["x-should-retry"] = "false"
    return headers


def _no_reframe(operation: Operation, query: Mapping[str, str], *, stream: bool) -> Reframe | None:  # noqa: ARG001
    return None


class RequestSignatures(Protocol):
    """How clients of a wire sign requests instead of sending their key alone."""

    advice: str
    """What a client has to set, so that its requests are signed with a key of the server."""

    def is_signed(self, headers: Mapping[str, str]) -> bool: ...

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that a signed request names; empty if its signature cannot be read."""
        ...

    def problem(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, now: datetime
    ) -> str:
        """Why a request was not signed with that key; empty if it was. `target`: path and query as they were sent."""
        ...


@final
class ProviderState(Struct, frozen=True, kw_only=True):
    """How a provider of a wire is asked to hold a conversation, so that the next request sends only what is new."""

    begin: Mapping[str, Any]
    """Fields of a request whose conversation is to be held from then on."""
    going_on: Callable[[str], Mapping[str, Any]]
    """The same for one that continues the reply with this id."""
    left_out: frozenset[str] = frozenset()
    """Fields that such a request does not repeat."""
    usual: Mapping[str, Any] = {}
    """What fields say that need not be sent: a request without them means the same."""
    is_reply: Callable[[Any], bool]
    """Whether a message of a request is a part of what the model wrote."""
    header: tuple[str, str] | None = None
    """A header that both need."""
    life: float
    """Seconds for which a reply is surely held."""
    fixed: bool = False
    """Whether system, tools and the choice among them cannot change."""


@final
class ServerFacts(Struct, frozen=True, kw_only=True, dict=True):
    """One wire format as a server serves it."""

    paths: tuple[ServerPath, ...]
    prefix: str
    """Before every path, for clients of a wire that shares its paths with another: `/mistral`."""
    client_marks: tuple[tuple[str, str], ...] = ()
    """Headers, each with a part of its value in lower case, that show a client of this wire where paths are shared."""
    shown_by: Callable[[Mapping[str, Raw]], bool | None] = lambda _: None
    """Whether the fields of a chat, as they came, show a client of this wire; None if they show nothing."""
    key_headers: tuple[str, ...] = ("authorization",)
    """Where a client's key is; `authorization` has "Bearer" before it."""
    signatures: RequestSignatures | None = None
    """None if clients of this wire sign nothing."""
    key_query: str = ""
    """The parameter of a query that holds the key instead; empty if there is none."""
    forwarded_headers: tuple[str, ...] = ()
    """How headers begin that belong to the wire and go on to a provider of the same one."""
    beta_headers: tuple[str, ...] = ()
    """Those of them that switch on what an account or a model may not have."""
    returned_headers: tuple[str, ...] = ()
    """How headers of a provider's response begin that clients of the same wire read, such as those of its limits."""
    conversation_headers: tuple[str, ...] = ()
    """Headers by which known clients name one conversation."""
    conversation_fields: tuple[str, ...] = ()
    """Fields of a request that do the same, as a text or as an object with an `id`."""
    session_headers: tuple[str, ...] = ()
    """Headers by which known clients name a session, and an agent in it. Titles and subagents may have the same name, so all
    of them together say which conversations a request may belong to, not which one. Names that only keep requests near a
    cache (`prompt_cache_key`, `x-session-affinity`) are none: conversations share them."""
    passing_system: tuple[str, ...] = ()
    """How paragraphs of a system prompt begin that known clients write anew for each request. They mean nothing to another
    provider, and would keep it from finding the prompt in its cache."""
    counted: bytes = b""
    """What the provider counts in a whole request, as it is written there; empty if there is no such thing."""
    most_counted: int = 0
    """How many of it it takes."""
    has_socket: bool = False
    """Whether clients may send their chats over a WebSocket at the same path."""
    model_field: str = "model"
    """Empty if the model is in the path."""
    agent_field: str = ""
    """A field that names who answers instead, if that is no model; empty if there is none."""
    reply_model_field: str = "model"
    """The field of a reply, or of its frames, that names the model."""
    stream_field: str = "stream"
    """Empty if the path decides."""
    streams_by_default: bool = False
    stream_type: str = "text/event-stream; charset=utf-8"
    cut_frames: Callable[[bytes], tuple[list[bytes], bytes]] | None = None
    """The whole frames in some bytes of a stream, and the rest, on wires whose frames are no lines."""
    streams_counts: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether a client that streams is shown what was used, by the fields of its request."""
    choices_field: tuple[str, ...] = ()
    """Where a request says how many replies it wants side by side; empty if the wire knows no such thing."""
    counts_at_start: bool = False
    """Whether a stream begins with the tokens of the request, by which clients plan before its end."""
    keep_alive: bytes = b""
    """A frame that every client ignores; empty if there is none."""
    error_frame: Callable[[SegueError], bytes]
    """The frame that ends a stream which broke off."""
    error_headers: Callable[[SegueError], dict[str, str]] = error_headers
    standing_headers: Callable[[CallerStanding], dict[str, str]] = lambda _: {}
    """Headers in which clients of this wire read how much they may still use."""
    chat_request: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """The body of a chat in the body of another operation: of `generate` or `count_tokens`."""
    reframe: Callable[..., Reframe | None] = _no_reframe
    """Of an operation and its query; keyword `stream`."""
    encode_models: Callable[[Sequence[ServedModel], Mapping[str, str]], bytes]
    """The list of models; the query may ask for a part."""
    encode_model: Callable[[ServedModel], bytes]
    encode_loaded: Callable[[Operation, Mapping[str, Any], float], bytes | None] | None = None
    """The answer to a request that only has its model loaded, at this moment; None if it asks the model something."""
    encode_count: Callable[[int], bytes] | None = None
    """None if clients of this wire cannot ask for a count."""
    references: tuple[ReferenceField, ...] = ()
    """Fields of a request that stand for content which only their holder has."""
    obeyed: frozenset[str] = frozenset()
    """Fields of a request that a server obeys by itself, whichever model answers: nothing is lost where a provider of another
    wire is not sent them."""
    stores_replies: bool = False
    """Whether clients may ask for replies by their ids, and for compacted conversations (`stored_replies`)."""
    holds_contents: bool = False
    """Whether clients may have the beginning of their requests held, and name it in its place (`gemini.cached_contents`)."""
    state: ProviderState | None = None
    """How the provider whose API this is holds conversations; None if it holds none."""
    continuations: Continuations | None = None
    """How requests may hold only what is new; None if they never do, or only in the way of `stored_replies`."""
    carried_fields: tuple[str, ...] = ()
    """Fields that a request which continues a kept reply has from there, if it does not give them itself."""
    item_marks: tuple[bytes, ...] = ()
    """No body without one of them holds an item that stands for something, or asks for compaction."""
    decode_embedding: Callable[[Mapping[str, Any]], EmbeddingRequest] | None = None
    encode_embeddings: EmbeddingsEncoder | None = None

    def choices_in(self, body: Mapping[str, Any]) -> int:
        """How many replies a request wants side by side."""
        wanted: Any = body if self.choices_field else 1
        for name in self.choices_field:
            wanted = wanted.get(name, 1) if isinstance(wanted, Mapping) else 1
        return wanted if isinstance(wanted, int) else 1

    def may_refer(self, text: bytes) -> bool:
        """Whether messages in the bytes of a request may refer to anything: nearly always a look at the bytes shows that they do
        not, and no message need be read for it."""
        return holds_mark(text, self._marks)

    @cached_property
    def _marks(self) -> frozenset[bytes]:
        return frozenset(self.item_marks).union(*[field.marks for field in self.references])

    def count_in(self, text: bytes) -> int:
        """How many of what the provider counts are in a part of a request."""
        return text.count(self.counted) if self.counted else 0
