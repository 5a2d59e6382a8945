"""What a provider can do besides chat: one value of optional functions, and the values that they take and return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from segue.conversation.blocks import Origin
    from segue.providers.adapter import ChatRequest, RequestSent, TakeEvents
    from segue.providers.batches.wire_batch import BatchAccess
    from segue.transcript.repairs import Repair
    from segue.transports.transport import PushedResponse

ModelType: TypeAlias = Literal["chat", "embedding", "image", "audio", "moderation", "other"]


@final
class ModelInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a model: from the catalog, and from what its provider answers."""

    id: str
    provider: str = ""
    name: str = ""
    """As people call it; the id where there is no better one."""
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
class ConfigProblem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a configuration. The value of a secret is masked."""

    field: str
    message: str
    value: str = ""
    hint: str = ""


OnPull: TypeAlias = Callable[[PullProgress], None]
OnEmbedded: TypeAlias = Callable[[int, int], None]
"""Called with the number of texts that are done, and the number of all."""
OnCounted: TypeAlias = Callable[[int], None]
"""Called with the tokens of all texts, if their provider counts them."""


class ListModels(Protocol):
    """All models. An answer may be some minutes old, unless `refresh` is set."""

    async def __call__(self, *, refresh: bool = False) -> list[ModelInfo]: ...


class PullModel(Protocol):
    """Download a model."""

    async def __call__(self, name: str, on_progress: OnPull | None = None) -> None: ...


class Embed(Protocol):
    """The vectors of texts, in their order. No texts give no vectors, and no request."""

    async def __call__(
        self,
        texts: Sequence[str],
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: OnEmbedded | None = None,
        on_counted: OnCounted | None = None,
    ) -> list[list[float]]: ...


class EmbeddingDimensions(Protocol):
    """The length of the vectors of a model."""

    async def __call__(self, model: str = "") -> int: ...


class Forward(Protocol):
    """Sends a request that was written elsewhere in the wire format of this provider, as it is."""

    def target(self, model: str, dialect: str = "") -> Origin:
        """Who would answer, and in which dialect: in this one if the provider has it, else in the one that the model needs."""
        ...

    def repairs(self, request: ChatRequest, size: int) -> tuple[Repair, ...]:
        """What would be repaired if the request, of `size` bytes or so, were written here instead. Raises what keeps it from
        being sent."""
        ...

    def send(
        self, model: str, body: bytes, *, stream: bool, headers: Mapping[str, str], dialect: str = ""
    ) -> AbstractAsyncContextManager[PushedResponse]:
        """The response; a status other than 2xx is raised as an error. `headers` go beside those of the provider. `dialect`: as
        for the target."""
        ...


class AskCachedContents(Protocol):
    """Asks about contents that a provider of Gemini's wire holds. `name`: of one of them, without what all names begin with."""

    async def __call__(
        self, method: str, name: str = "", body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]: ...


@final
@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a provider can do besides chat. `None`: it cannot."""

    count_tokens: Callable[[ChatRequest], Awaitable[int]] | None = None
    """The input tokens of a request."""
    preview: Callable[[ChatRequest], RequestSent] | None = None
    """The first event of the stream that this request would get, without sending it."""
    push: Callable[[ChatRequest, TakeEvents], Awaitable[None]] | None = None
    """The events of `chat_stream`, those together that arrived together, by a plain call for each portion: much cheaper for whoever
    passes them on. What ends the reply comes alone."""
    forward: Forward | None = None
    list_models: ListModels | None = None
    show_model: Callable[[str], Awaitable[ModelInfo]] | None = None
    running_models: Callable[[], Awaitable[list[ModelInfo]]] | None = None
    """Those in memory now; `context` is the window they were loaded with."""
    pull_model: PullModel | None = None
    delete_model: Callable[[str], Awaitable[None]] | None = None
    embed: Embed | None = None
    embedding_model: str = ""
    """The one that is used if none is named."""
    embedding_dimensions: EmbeddingDimensions | None = None
    cached_contents: AskCachedContents | None = None
    batches: BatchAccess | None = None
    """Its batch endpoint."""
    health: Callable[[], Awaitable[Health]] | None = None
    """Whether it would answer. Never raises."""
    validate_config: Callable[[], list[ConfigProblem]] | None = None
    """All that is wrong with its configuration."""
