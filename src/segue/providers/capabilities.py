"""What a provider can do beside chat, as the methods of the small protocols: those that its services allow."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from segue.providers.models.listing import ModelList, show_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from segue.providers.adapter import ModelInfo, PullProgress
    from segue.providers.endpoint import Endpoint
    from segue.providers.services import Services

Given = ParamSpec("Given")
Gives = TypeVar("Gives")


def abilities(
    endpoint: Endpoint,
    services: Services,
    ready: Callable[[], Awaitable[None]],
    *,
    embedding_model: str = "",
) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Methods by name. What cannot be done has none, so that it can be told by asking for the method.

    `ready` is waited for before anything is asked.
    """
    found: dict[str, Callable[..., Awaitable[Any]]] = {}
    if services.list_models is not None:
        found["list_models"] = ModelList(endpoint, services)
    if services.running_models is not None:
        found["running_models"] = _running(endpoint, services)
    if services.show_model is not None:
        found["show_model"] = _showing(endpoint, services)
    if services.pull_model is not None:
        found["pull_model"] = _pulling(endpoint, services)
    if services.delete_model is not None:
        found["delete_model"] = _deleting(endpoint, services)
    if services.embed is not None:
        found["generate_embeddings"] = _embedding(endpoint, services, embedding_model)
        found["embedding_dimensions"] = _measuring(endpoint, services, embedding_model)
    return {name: _when(ready, ability) for name, ability in found.items()}


def _when(
    ready: Callable[[], Awaitable[None]], ability: Callable[Given, Awaitable[Gives]]
) -> Callable[Given, Awaitable[Gives]]:
    @wraps(ability)
    async def method(*args: Given.args, **kwargs: Given.kwargs) -> Gives:
        await ready()
        return await ability(*args, **kwargs)

    return method


def _running(endpoint: Endpoint, services: Services) -> Callable[..., Awaitable[Any]]:
    async def running_models() -> list[ModelInfo]:
        return await services.running_models(endpoint) if services.running_models else []

    return running_models


def _showing(endpoint: Endpoint, services: Services) -> Callable[..., Awaitable[Any]]:
    async def show(name: str) -> ModelInfo:
        return await show_model(endpoint, services, name)

    return show


def _pulling(endpoint: Endpoint, services: Services) -> Callable[..., Awaitable[Any]]:
    async def pull_model(name: str, on_progress: Callable[[PullProgress], None] | None = None) -> None:
        if services.pull_model is not None:
            await services.pull_model(endpoint, name, on_progress)

    return pull_model


def _deleting(endpoint: Endpoint, services: Services) -> Callable[..., Awaitable[Any]]:
    async def delete_model(name: str) -> None:
        if services.delete_model is not None:
            await services.delete_model(endpoint, name)

    return delete_model


def _embedding(endpoint: Endpoint, services: Services, usual: str) -> Callable[..., Awaitable[Any]]:
    from segue.providers.embeddings import embed_all  # noqa: PLC0415 - who only chats does without

    async def generate_embeddings(
        texts: Sequence[str],
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[list[float]]:
        batch = await embed_all(
            endpoint,
            services,
            texts,
            model=model or usual,
            dimensions=dimensions,
            on_progress=on_progress,
        )
        return batch.vectors

    return generate_embeddings


def _measuring(endpoint: Endpoint, services: Services, usual: str) -> Callable[..., Awaitable[Any]]:
    from segue.providers.embeddings import embedding_dimensions  # noqa: PLC0415 - who only chats does without

    async def dimensions(model: str = "") -> int:
        return await embedding_dimensions(endpoint, services, model or usual)

    return dimensions
