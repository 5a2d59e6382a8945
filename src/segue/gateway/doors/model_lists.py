"""The models that the configured providers report, for the lists that clients ask for.

Kept for a while, asked for side by side, and never waited for long: a provider that fails or is slow is missing from a
list, or there with what it reported before.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from segue.dialects.server_side.wire_server import ServedModel
from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.providers.capabilities import ModelInfo
    from segue.providers.registry import KnownProviders

KEPT_SECONDS: Final = 300.0
AGAIN_SECONDS: Final = 60.0
"""After a failure: a server on this machine may have been started by then."""
WAIT_SECONDS: Final = 3.0
"""How long a client waits for a list at most; what arrives later is in the next one."""
ASK_SECONDS: Final = 30.0
MOST: Final = 2000
"""Models of one provider."""
_SHOWN: Final = ("chat", "embedding")
_LOG: Final = logging.getLogger("segue.gateway")


@final
class ProviderModels:
    """Those of all providers that have what they need."""

    def __init__(self, providers: KnownProviders) -> None:
        self._providers = providers
        self._lists: dict[str, list[ServedModel]] = {}
        self._due = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def models(self) -> list[ServedModel]:
        """What is known, by the name that a client would ask for: provider/model."""
        if self._asking is None and monotonic() >= self._due:
            self._asking = asyncio.ensure_future(self._ask())
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=WAIT_SECONDS)
        return [model for models in self._lists.values() for model in models]

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self) -> None:
        kept = AGAIN_SECONDS
        try:
            # It may run commands that know a key.
            names = await asyncio.to_thread(self._providers.configured)
            for name in set(self._lists) - set(names):
                del self._lists[name]
            if all(await asyncio.gather(*map(self._ask_one, names))):
                kept = KEPT_SECONDS
        except SegueError as error:
            _LOG.warning("The models of providers were not listed: %s", error)
        finally:
            self._due, self._asking = monotonic() + kept, None

    async def _ask_one(self, name: str) -> bool:
        """Whether the provider answered, or has no list."""
        try:
            provider = self._providers.get(name)
            listing = provider.capabilities.list_models if provider is not None else None
            if listing is not None:
                async with asyncio.timeout(ASK_SECONDS):
                    self._lists[name] = list(_served(name, await listing()))[:MOST]
        except (SegueError, TimeoutError) as error:
            _LOG.debug("The models of %s were not listed: %s", name, type(error).__name__)
            return False
        return True


def _served(provider: str, listed: list[ModelInfo]) -> Iterator[ServedModel]:
    for info in listed:
        if info.type in _SHOWN:
            yield ServedModel(
                id=f"{provider}/{info.id}",
                title=info.name or info.id,
                owner=provider,
                context=info.context,
                output=info.output,
                tools="tools" in info.capabilities,
                images="vision" in info.capabilities,
                reasoning="reasoning" in info.capabilities,
                embedding=info.type == "embedding",
            )
