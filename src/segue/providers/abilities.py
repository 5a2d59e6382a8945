"""What a provider can do beside chat, as the methods of the small protocols: those that its services allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.providers.adapter import ModelInfo, PullProgress
    from segue.providers.endpoint import Endpoint
    from segue.providers.services import Services


def abilities(
    endpoint: Endpoint, services: Services, ready: Callable[[], Awaitable[None]]
) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Methods by name. What cannot be done has none, so that it can be told by asking for the method."""
    found: dict[str, Callable[..., Awaitable[Any]]] = {}
    if services.list_models is not None:
        found["list_models"] = _Listing(endpoint, services.list_models, ready)
    if services.running_models is not None:
        found["running_models"] = _of_endpoint(endpoint, services.running_models, ready)
    if services.show_model is not None:
        found["show_model"] = _of_endpoint(endpoint, services.show_model, ready)
    if services.delete_model is not None:
        found["delete_model"] = _of_endpoint(endpoint, services.delete_model, ready)
    if services.pull_model is not None:
        pull = services.pull_model

        async def pull_model(name: str, on_progress: Callable[[PullProgress], None] | None = None) -> None:
            await ready()
            await pull(endpoint, name, on_progress)

        found["pull_model"] = pull_model
    return found


def _of_endpoint(
    endpoint: Endpoint, service: Callable[..., Awaitable[Any]], ready: Callable[[], Awaitable[None]]
) -> Callable[..., Awaitable[Any]]:
    async def ability(*what: str) -> Any:
        await ready()
        return await service(endpoint, *what)

    return ability


class _Listing:
    """The models of a place, asked for once and remembered until somebody wants them anew."""

    def __init__(
        self,
        endpoint: Endpoint,
        service: Callable[[Endpoint], Awaitable[list[ModelInfo]]],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._service = service
        self._ready = ready
        self._models: list[ModelInfo] | None = None

    async def __call__(self, *, refresh: bool = False) -> list[ModelInfo]:
        if self._models is None or refresh:
            await self._ready()
            self._models = await self._service(self._endpoint)
        return list(self._models)
