"""The emulator of a wire as a provider in this process: what it accepts is compared with what the real one accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses
from segue.transports.asgi import AsgiTransport

if TYPE_CHECKING:
    from segue.providers.provider import Provider

_PATHS: Final = {
    "openai_chat": "openai/v1",
    "openai_responses": "openai/v1",
    "anthropic": "anthropic",
    "gemini": "gemini/v1beta",
    "mistral": "mistral/v1",
    "kimi": "kimi/v1",
    "deepseek": "deepseek",
    "ollama": "ollama",
    "converse": "bedrock",
}
"""Where each wire is mounted in the emulators."""
_VERTEX: Final = "vertex/v1/projects/p/locations/global/publishers"
_CLOUDS: Final = {
    "azure-openai": "azure/openai/v1",
    "azure-anthropic": "azure/anthropic",
    "vertex": f"{_VERTEX}/google",
    "vertex-anthropic": f"{_VERTEX}/anthropic",
    "bedrock": "bedrock",
    "bedrock-invoke": "bedrock",
    "bedrock-mantle": "bedrock-mantle",
    "claude-aws": "claude-aws",
}
"""Clouds that serve a wire with rules of their own."""


def has_emulator(dialect: str) -> bool:
    return dialect in _PATHS


def is_cloud(provider: str) -> bool:
    return provider in _CLOUDS


def emulated_provider(dialect: str, *, strict: bool = False, cloud: str = "") -> tuple[Provider, Emulator]:
    """A provider that speaks this dialect with its emulator, and the emulator: that of a cloud, or of the wire's home."""
    emulator = Emulator(strict=strict)
    homes = addresses().providers.items()
    home = cloud or next(name for name, address in homes if dialect in address.dialects)
    path = _CLOUDS.get(cloud) or _PATHS[dialect]
    config = ProviderConfig(base_url=f"http://emulator.invalid/{path}", workspace="emulated")
    transport = AsgiTransport(App(emulator))
    return connect(home, config, api_key="emulated", environ={}, transport=transport, keyring=False), emulator
