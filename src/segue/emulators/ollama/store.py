"""The models of one Ollama server: which are installed, which are loaded, and what is known about each."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.emulators.model.model_facts import facts_for, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.emulator import Emulator

REGISTRY = "registry.ollama.ai/library"
_KEY = "store"
_DEFAULT_KEEP_ALIVE = 300.0
_FOREVER = 10.0 * 365 * 24 * 3600


class Installed(Struct, frozen=True):
    """A pulled model."""

    name: str
    since: int

    @property
    def facts(self) -> Mapping[str, Any]:
        return facts_for("ollama", self.name)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()


class Loaded(Struct, frozen=True):
    """A model that sits in memory until its time is up."""

    name: str
    until: float
    context: int


class Store:
    """Models by their full name, tag included: `qwen3` is `qwen3:latest`."""

    def __init__(self, now: int) -> None:
        self._installed = {name: Installed(name, now) for name in listed("ollama")}
        self._loaded: dict[str, Loaded] = {}

    def __iter__(self) -> Iterator[Installed]:
        return iter(self._installed.values())

    def find(self, name: str) -> Installed | None:
        return self._installed.get(full_name(name))

    def install(self, name: str, now: int) -> Installed:
        model = Installed(full_name(name), now)
        self._installed[model.name] = model
        return model

    def remove(self, name: str) -> bool:
        self._loaded.pop(full_name(name), None)
        return self._installed.pop(full_name(name), None) is not None

    def load(self, name: str, *, now: float, keep_alive: float | None, context: int) -> None:
        """OLL-13: five minutes unless asked otherwise, negative keeps it for good, zero unloads at once."""
        seconds = _DEFAULT_KEEP_ALIVE if keep_alive is None else keep_alive
        if seconds == 0:
            self._loaded.pop(full_name(name), None)
            return
        until = now + (_FOREVER if seconds < 0 else min(seconds, _FOREVER))
        self._loaded[full_name(name)] = Loaded(full_name(name), until, context)

    def loaded(self, now: float) -> list[Loaded]:
        return [model for model in self._loaded.values() if model.until > now]


def full_name(name: str) -> str:
    short = name.removeprefix(REGISTRY + "/").removeprefix("library/")
    return short if ":" in short else f"{short}:latest"


def store_of(emulator: Emulator) -> Store:
    """The server's store, made with the default models when it is asked for first."""
    memory = emulator.memory("ollama")
    if _KEY not in memory:
        memory[_KEY] = Store(int(emulator.clock()))
    store: Store = memory[_KEY]
    return store


def known_store(memory: Mapping[str, Any]) -> Store | None:
    """The store if there is a running server behind the check; a pure check knows none."""
    store: Store | None = memory.get(_KEY)
    return store


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
