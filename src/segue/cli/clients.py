"""Programs that can be pointed at the gateway: their variables, arguments and settings, read from `clients.toml`."""

from __future__ import annotations

import os
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct

from segue.errors import JournalError, UsageError
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from segue.config.schema import Config

KEY_VARIABLE = "SEGUE_GATEWAY_KEY"
NO_KEY = "segue"
"""Programs insist on a key; where the gateway needs none, this word serves."""


@final
class Client(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program, with places for {url}, {key} and {model}."""

    title: str
    command: str = ""
    """Empty: it cannot be started, only its environment is known."""
    environment: dict[str, str]
    model_environment: dict[str, str] = {}
    """Set only where a model is named: without it, the program asks for the models that it knows."""
    arguments: list[str] = []
    model_arguments: list[str] = []
    needs_model: bool = False
    file: str = ""
    lines: str = ""
    note: str = ""
    """What variables alone cannot do."""


@lru_cache(maxsize=1)
def known_clients() -> dict[str, Client]:
    table = tomllib.loads(Path(__file__).with_name("clients.toml").read_text("utf-8"))
    return msgspec.convert(table, dict[str, Client])


def find_client(name: str) -> Client:
    clients = known_clients()
    if name not in clients:
        raise UsageError(
            f'How to start "{name}" is not known.',
            code="unknown_client",
            hint=suggestion(name, clients) or f"Known: {', '.join(clients)}.",
        )
    return clients[name]


@final
class Pointer(Struct, frozen=True):
    """Where a program is pointed at."""

    url: str
    key: str
    model: str = ""

    def __repr__(self) -> str:
        return f"Pointer({self.url})"

    def fill(self, text: str) -> str:
        for name, value in (("{url}", self.url), ("{key}", self.key), ("{model}", self.model)):
            text = text.replace(name, value)
        return text


def environment_of(client: Client, pointer: Pointer) -> dict[str, str]:
    variables = {**client.environment, **(client.model_environment if pointer.model else {})}
    return {name: pointer.fill(value) for name, value in variables.items()}


def arguments_of(client: Client, pointer: Pointer) -> list[str]:
    words = [*client.arguments, *(client.model_arguments if pointer.model else ())]
    return [pointer.fill(word) for word in words]


def model_for(client: Client, given: str, config: Config) -> str:
    """The name that the program asks for: the given one, else the gateway's or the user's own if it needs one."""
    model = given or (config.gateway.model or config.model if client.needs_model else "")
    if client.needs_model and not model:
        raise UsageError(
            f"{client.title} needs the name of a model.",
            code="model_needed",
            hint="Name one: -m provider/model. Or set gateway.model.",
        )
    return model


def gateway_url(config: Config) -> str:
    settings = config.gateway
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - where it listens
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'https' if settings.tls_certificate else 'http'}://{shown}:{settings.port}"


def asks_for_key(config: Config, *, elsewhere: bool) -> bool:
    """Whether the gateway that these settings describe asks for a caller's key, as far as can be known of one elsewhere."""
    if os.environ.get(KEY_VARIABLE) or config.gateway.callers:
        return True
    if elsewhere:
        return False
    from segue.cli.commands.gateway_keys import has_accounts  # noqa: PLC0415 - loads the store
    from segue.config.paths import gateway_directory  # noqa: PLC0415

    memory = config.gateway.memory
    # Where there is no file, none is made.
    kept = bool(config.store) or (gateway_directory(memory.directory) / "accounts.db").exists()
    try:
        return memory.keep != "memory" and kept and has_accounts(config)
    except JournalError:  # a database that is away is the store of a gateway for many
        return True


def key_of(config: Config) -> str:
    """The caller's key, where the gateway asks for one."""
    if key := os.environ.get(KEY_VARIABLE, ""):
        return key
    for caller in config.gateway.callers.values():
        if caller.key_env and (key := os.environ.get(caller.key_env, "")):
            return key
    return NO_KEY


def key_needed(message: str) -> UsageError:
    return UsageError(
        message,
        code="caller_key_needed",
        hint=f"Set {KEY_VARIABLE} to a caller's key. Make one: segue gateway keys create NAME",
    )
