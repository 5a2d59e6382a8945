"""Providers whose APIs are emulated in this process: for tests and for trying things without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport

if TYPE_CHECKING:
    from segue.providers.registry import KnownProviders

_PATHS: Final = {
    "openai": "/openai/v1",
    "anthropic": "/anthropic",
    "gemini": "/gemini/v1beta",
    "mistral": "/mistral/v1",
    "kimi": "/kimi/v1",
    "deepseek": "/deepseek",
    "ollama": "/ollama",
    "bedrock": "/bedrock",
}
"""Where the emulators serve each provider."""


def emulated_providers(emulator: Emulator | None = None) -> KnownProviders:
    """A registry in which strict emulators answer for OpenAI, Anthropic, Gemini, Mistral, Kimi, DeepSeek, Ollama and Bedrock: without
    a key and without a socket. `emulator`: to script what the models answer, and to look at what they were sent."""
    configs = {
        name: ProviderConfig(base_url=f"http://emulator.invalid{path}", api_key=Secret("emulated"))
        for name, path in _PATHS.items()
    }
    app = App(Emulator(strict=True) if emulator is None else emulator)
    return default_registry(configs, {}, AsgiTransport(app), keyring=False)
