"""Models, embeddings and token counts: what servers offer besides chat, one module per wire.

The services are functions of an endpoint; bound to one they are `Capabilities`. They know paths only. An endpoint's address
is what its own SDK calls a base URL: for OpenAI's wire and Mistral's it ends with the version (``…/v1``), for Gemini's too
(``…/v1beta``); Anthropic's and Ollama's have no path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.dialects.registry import proper_name
from segue.providers.adapter import ChatRequest
from segue.providers.capabilities import ModelInfo, OnPull
from segue.providers.endpoint import Endpoint
from segue.providers.models.catalog import EmbeddingLimits

_MODULES: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "mistral": "mistral",
    "ollama": "ollama",
    "converse": "converse",
    "bedrock_invoke": "converse",
    "bedrock_mantle": "converse",
    "vertex": "vertex",
    "vertex_anthropic": "vertex",
}
"""Dialects, and hosts, that have a module of their own; all others use OpenAI's."""
_UNLISTED: Final = "-"
_LOADS_WITH_OPTIONS: Final = "ollama"
"""Its servers load a model with the options of a request, and again when those change."""

ListService: TypeAlias = Callable[[Endpoint], Awaitable[list[ModelInfo]]]
ShowService: TypeAlias = Callable[[Endpoint, str], Awaitable[ModelInfo]]
DeleteService: TypeAlias = Callable[[Endpoint, str], Awaitable[None]]
Counted: TypeAlias = tuple[list[list[float]], int | None]
"""Vectors, and the tokens of their texts as their provider counted them."""
EmbedService: TypeAlias = Callable[[Endpoint, str, Sequence[str], int | None], Awaitable[Counted]]
"""Model, texts, dimensions: the vectors of one request, within the limits, which the caller keeps."""
CountService: TypeAlias = Callable[[Endpoint, str, bytes], Awaitable[int]]
"""Model, and the body of a chat request in the endpoint's dialect."""
FitOptions: TypeAlias = Callable[[ChatRequest, ModelCard], Options]


class PullService(Protocol):
    """Endpoint, name of the model, and a function to report progress to."""

    async def __call__(self, endpoint: Endpoint, name: str, on_progress: OnPull | None = None) -> None: ...


class CacheService(Protocol):
    """Method, name and body of a request about contents that the server holds."""

    async def __call__(
        self, endpoint: Endpoint, method: str, name: str = "", body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]: ...


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
    cached_contents: CacheService | None = None


def services_for(endpoint: Endpoint) -> Services:
    """The services of one server: those of its dialect, unless its address says otherwise."""
    services = services_of(endpoint.services or endpoint.dialect.name)
    return (
        services
        if endpoint.models_path != _UNLISTED
        else structs.replace(services, list_models=None, show_model=None)
    )


@lru_cache(maxsize=64)
def services_of(dialect: str) -> Services:
    """The services of servers with this dialect. The module is loaded when first used."""
    name = dialect if dialect in _MODULES else proper_name(dialect)
    services: Services = import_module(f"{__package__}.{_MODULES.get(name, 'openai_like')}").services(name)
    return services


def new_fitting(dialect: str) -> FitOptions | None:
    """Fits options to requests, and remembers what it gave to a session: one per provider. None where they are sent as they
    are."""
    if dialect != _LOADS_WITH_OPTIONS:
        return None
    from segue.providers.services.ollama import Windows  # noqa: PLC0415 - of one wire

    return Windows()
