"""A plugin for `llm`: known models of every provider with a key, and the names of your settings, as `segue/NAME`.

    llm -m segue/anthropic/claude-sonnet-4-6 "Hello!"
    llm -c -m segue/openai/gpt-5.5 "And now?"

Signatures are kept beside the logs of `llm`, so that they return in the next process.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import llm
from llm.default_plugins.openai_models import AsyncResponses, Responses

from segue.config.layers import load_settings
from segue.config.paths import user_file
from segue.errors import SegueError
from segue.gateway import gateway_app
from segue.integrations.in_process_clients import async_client, waiting_client
from segue.providers.hosts.addresses import find_address
from segue.providers.models.catalog import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segue.gateway import GatewayApplication

__all__ = ["AsyncGatewayModel", "GatewayModel", "register_models"]

PREFIX = "segue/"
_FEATURES = {"reasoning": True, "supports_schema": True, "supports_tools": True, "vision": True}


class GatewayModel(Responses):
    """A name of the gateway as a model of `llm`."""

    needs_key = None  # type: ignore[assignment] # llm declares it as a word, and sets None itself
    key_env_var = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        super().__init__(f"{PREFIX}{name}", model_name=name, **_FEATURES)  # type: ignore[no-untyped-call]

    def __str__(self) -> str:
        return f"segue: {self.model_id}"

    def get_client(self, key: str | None, *, async_: bool = False) -> Any:
        del key
        return async_client(_app()) if async_ else waiting_client(_app())


class AsyncGatewayModel(AsyncResponses):
    """The same without waiting."""

    needs_key = None  # type: ignore[assignment] # llm declares it as a word, and sets None itself
    key_env_var = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        super().__init__(f"{PREFIX}{name}", model_name=name, **_FEATURES)  # type: ignore[no-untyped-call]

    def __str__(self) -> str:
        return f"segue: {self.model_id}"

    get_client = GatewayModel.get_client


@llm.hookimpl
def register_models(register: Callable[..., object]) -> None:
    for name in dict.fromkeys((*_own_names(), *_known_models())):
        register(GatewayModel(name), AsyncGatewayModel(name))


@lru_cache(maxsize=1)
def _app() -> GatewayApplication:
    settings = user_file()
    return gateway_app(settings if settings.is_file() else None, memory=_folder() / "segue")


def _folder() -> Path:
    folder: Path = llm.user_dir()  # type: ignore[no-untyped-call]
    return folder


def _own_names() -> tuple[str, ...]:
    """Aliases and profiles of the settings. Settings with errors do not keep `llm` from its other models."""
    try:
        config = load_settings().config
    except SegueError:
        return ()
    return (*config.aliases, *config.profiles)


def _known_models() -> Iterator[str]:
    """Of providers whose key is in the environment: nothing is asked while `llm` starts."""
    for model in catalog().model:
        for provider in model.providers if model.type == "chat" else ():
            address = find_address(provider)
            if address is not None and any(os.environ.get(name) for name in address.key_env):
                yield f"{provider}/{model.id}"
