"""What servers of a dialect offer besides chat, as functions of an endpoint; bound to one they are `Capabilities`.

The functions know paths only. An endpoint's address is what its own SDK calls a base URL: for OpenAI's wire and
Mistral's it ends with the version (``…/v1``), for Gemini's too (``…/v1beta``); Anthropic's and Ollama's have no path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, final

from msgspec import Struct

from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.providers.adapter import ChatRequest
from segue.providers.capabilities import ModelInfo, OnPull
from segue.providers.endpoint import Endpoint
from segue.providers.models.catalog import EmbeddingLimits

ListService: TypeAlias = Callable[[Endpoint], Awaitable[list[ModelInfo]]]
ShowService: TypeAlias = Callable[[Endpoint, str], Awaitable[ModelInfo]]
DeleteService: TypeAlias = Callable[[Endpoint, str], Awaitable[None]]
EmbedService: TypeAlias = Callable[[Endpoint, str, Sequence[str], int | None], Awaitable[list[list[float]]]]
"""Model, texts, dimensions: the vectors of one request, within the limits, which the caller keeps."""
CountService: TypeAlias = Callable[[Endpoint, str, bytes], Awaitable[int]]
"""Model, and the body of a chat request in the endpoint's dialect."""
FitOptions: TypeAlias = Callable[[ChatRequest, ModelCard], Options]


class PullService(Protocol):
    """Endpoint, name of the model, and a function to report progress to."""

    async def __call__(self, endpoint: Endpoint, name: str, on_progress: OnPull | None = None) -> None: ...


@final
class Services(Struct, frozen=True, kw_only=True):
    """What a server offers besides chat. `None`: not offered."""

    list_models: ListService | None = None
    show_model: ShowService | None = None
    shows_limits: bool = False
    """Whether that reports the context window, cheaply: then it is asked before the first chat."""
    pull_model: PullService | None = None
    delete_model: DeleteService | None = None
    running_models: ListService | None = None
    """Those in memory now; `context` is the window they were loaded with."""
    embed: EmbedService | None = None
    embedding_limits: EmbeddingLimits = EmbeddingLimits()
    count_tokens: CountService | None = None
