"""What every provider offers, as a protocol: anyone can write one.

Only `name` and `chat_stream` are needed; subclass `ProviderAdapter` and the rest of the protocol is there. What a
provider can do besides is told by the small protocols below, which can be asked for at run time:
``isinstance(adapter, CountsTokens)``.
"""

from __future__ import annotations

from asyncio import Event as Abort
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final, runtime_checkable

from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, fold
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.response_view import as_response
from segue.transcript.policy import Policy
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from segue.dialects.card import ModelCard


@final
class Sent(Struct, frozen=True, kw_only=True):
    """A request as it went out: whose words the reply will be, and what it took to make the request sayable."""

    origin: Origin
    made_under: str = ""
    """Fingerprint that the seals of the reply are bound to."""
    repairs: tuple[Repair, ...] = ()
    """Of the transcript, of tools and of options: also settings that the provider does not know."""
    body: bytes = b""
    url: str = ""
    """Without the key, also where a provider wants it in the address."""


@final
class ChatRequest(Struct, frozen=True, kw_only=True):
    """What a provider is asked. The conversation is canonical: the provider says it in its own language."""

    model: str
    conversation: Conversation
    ledger: Ledger | None = None
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    policy: Policy = Policy()
    session: str = ""
    """Requests of one session may use again what was rendered and encoded for the one before."""
    abort: Abort | None = None
    """Set it, and the stream ends with one `Finished("cancelled")`."""
    on_sent: Callable[[Sent], None] | None = None
    """Hears of the request when it goes out, before the first event."""


class ProviderAdapter(Protocol):
    """A place that answers requests."""

    name: str

    def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        """The reply while it arrives.

        Never raises once it has started: what goes wrong is told as `Failed`. Exactly one `Finished` or `Failed` ends
        it. Closing it closes the connection at once.
        """
        ...

    async def generate_chat(self, request: ChatRequest) -> dict[str, Any]:
        """The whole reply as one plain record; see `segue.dialects.response_view`. Raises what went wrong."""
        sent: list[Sent] = []

        def remember(what: Sent) -> None:
            sent.append(what)
            if request.on_sent is not None:
                request.on_sent(what)

        asked = structs.replace(request, on_sent=remember)
        events = [event async for event in self.chat_stream(asked)]
        origin = sent[-1].origin if sent else Origin(provider=self.name, model=request.model)
        reply = fold(events, origin, made_under=sent[-1].made_under if sent else "")
        if reply.error is not None:
            raise reply.error
        return as_response(reply)


class Providers(Protocol):
    """Finds providers by their names: a `ProviderRegistry`, or a plain dict."""

    def get(self, name: str, /) -> ProviderAdapter | None: ...


ModelType: TypeAlias = Literal["chat", "embedding", "image", "audio", "moderation", "other"]


@final
class ModelInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a model: from the catalog, and from what its provider answers."""

    id: str
    provider: str = ""
    name: str = ""
    """As people call it; the id where nobody has a better one."""
    type: ModelType = "chat"
    capabilities: tuple[str, ...] = ()
    """Sorted; of: streaming, tools, vision, reasoning, embeddings, json_schema."""
    context: int | None = None
    output: int | None = None
    dimensions: int | None = None
    input_price: float | None = None
    """Dollars per million tokens."""
    output_price: float | None = None
    size_bytes: int | None = None
    modified_at: str = ""
    details: dict[str, Any] = {}


@final
class PullProgress(Struct, frozen=True, omit_defaults=True):
    """How far a download has come."""

    status: str
    completed: int | None = None
    total: int | None = None


@final
class Health(Struct, frozen=True, kw_only=True):
    """Whether a provider answers, and what to do when it does not."""

    status: Literal["healthy", "unhealthy"]
    provider: str
    timestamp: str
    """ISO 8601, UTC."""
    latency: float | None = None
    """Seconds."""
    error: str = ""
    advice: str = ""


@final
class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a configuration. The value of a secret is masked."""

    field: str
    message: str
    value: str = ""
    hint: str = ""


@runtime_checkable
class CountsTokens(Protocol):
    """Can count the input tokens of a request."""

    async def count_tokens(self, request: ChatRequest) -> int: ...


@runtime_checkable
class Previews(Protocol):
    """Can tell the request that it would send, without sending it."""

    def preview(self, request: ChatRequest) -> Sent: ...


@runtime_checkable
class KnowsModels(Protocol):
    """Can tell, without asking anybody, what is known about a model."""

    def card(self, model: str) -> ModelCard: ...


@runtime_checkable
class ListsModels(Protocol):
    """Can tell which models it has."""

    async def list_models(self, *, refresh: bool = False) -> list[ModelInfo]: ...


@runtime_checkable
class ShowsModel(Protocol):
    """Can tell all about one model."""

    async def show_model(self, name: str) -> ModelInfo: ...


@runtime_checkable
class PullsModels(Protocol):
    """Can fetch and delete models."""

    async def pull_model(
        self, name: str, on_progress: Callable[[PullProgress], None] | None = None
    ) -> None: ...

    async def delete_model(self, name: str) -> None: ...


@runtime_checkable
class Embeds(Protocol):
    """Can turn texts into vectors."""

    async def generate_embeddings(
        self,
        texts: Sequence[str],
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[list[float]]: ...


@runtime_checkable
class ChecksHealth(Protocol):
    """Can tell whether it would answer."""

    async def health(self) -> Health: ...


@runtime_checkable
class ValidatesConfig(Protocol):
    """Can tell what is wrong with its own configuration, all at once."""

    def validate_config(self) -> list[Problem]: ...
