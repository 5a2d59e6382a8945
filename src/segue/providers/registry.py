"""All providers by name: those somebody registered, and those that are known and made when first asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias

from segue.errors import SegueError, UsageError
from segue.providers.addresses import addresses, find_address
from segue.providers.config import ProviderConfig, address_of
from segue.providers.connect import base_url_of, connect, key_of
from segue.providers.scripted import ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from segue.providers.adapter import ProviderAdapter
    from segue.transports.transport import Transport

ENTRY_POINTS: Final = "segue.providers"
"""Packages offer providers of their own under this group: a name, and a function without parameters that makes one."""

Make: TypeAlias = Callable[[], "ProviderAdapter"]
_UNTOLD: Final = ProviderConfig()


class ProviderRegistry:
    """Finds providers by name. One of them may be the default."""

    def __init__(self) -> None:
        self._adapters: dict[str, ProviderAdapter] = {}
        self._makers: dict[str, Make] = {}
        """Of those that are made when they are first asked for."""
        self._default = ""

    def register(self, adapter: ProviderAdapter, *, replace: bool = False) -> None:
        """Known under its own name. Another one of the same name is refused, unless it is to be replaced."""
        name = getattr(adapter, "name", "")
        self._check_name(name, replace=replace)
        if not callable(getattr(adapter, "chat_stream", None)):
            raise UsageError(
                f'Provider "{name}" has no chat_stream.',
                code="not_a_provider",
                hint="See segue.providers.adapter.ProviderAdapter.",
            )
        self._makers.pop(name, None)
        self._adapters[name] = adapter

    def register_lazily(self, name: str, make: Make, *, replace: bool = False) -> None:
        """Like `register`, but the provider is made when it is first asked for."""
        self._check_name(name, replace=replace)
        self._adapters.pop(name, None)
        self._makers[name] = make

    def get(self, name: str | None = None) -> ProviderAdapter | None:
        """The provider of this name, nothing if there is none; without a name, the default."""
        if name is None:
            return self.get_default()
        adapter = self._adapters.get(name)
        if adapter is None and name in self._makers:
            adapter = self._adapters[name] = self._makers[name]()
        return adapter

    def set_default(self, name: str) -> None:
        if name not in self:
            raise not_registered(name, self.list())
        self._default = name

    def get_default(self) -> ProviderAdapter:
        if not self._default:
            raise UsageError(
                "No default provider set",
                code="no_default_provider",
                hint="Name a provider, or set one as the default.",
            )
        adapter = self.get(self._default)
        if adapter is None:
            raise UsageError(
                f'Default provider "{self._default}" not found',
                code="default_provider_gone",
                hint="Set another.",
            )
        return adapter

    def unregister(self, name: str) -> None:
        """Forget a provider; if it was the default, there is none afterwards."""
        if name not in self:
            raise not_registered(name, self.list())
        self._adapters.pop(name, None)
        self._makers.pop(name, None)
        if self._default == name:
            self._default = ""

    def list(self) -> list[str]:
        """All names, each once, in the order in which they were registered."""
        return list(dict.fromkeys((*self._makers, *self._adapters)))

    def __contains__(self, name: object) -> bool:
        return name in self._adapters or name in self._makers

    def _check_name(self, name: object, *, replace: bool) -> None:
        if not isinstance(name, str) or not name.strip():
            raise UsageError("A provider needs a name.", code="bad_provider_name", hint="Give it one.")
        if name in self and not replace:
            raise UsageError(
                f'Provider "{name}" is registered already.',
                code="duplicate_provider",
                hint="Give it another name, or replace the one that is there: replace=True.",
            )


def not_registered(name: str, known: list[str]) -> UsageError:
    return UsageError(
        f'Provider "{name}" not registered',
        code="unknown_provider",
        hint=f"Known are: {', '.join(known)}." if known else "None is registered yet.",
    )


class KnownProviders(ProviderRegistry):
    """Every provider whose address is known or configured, and those that other packages offer."""

    def __init__(
        self,
        configs: Mapping[str, ProviderConfig],
        environ: Mapping[str, str],
        transport: Transport | None,
        key_file: Path | None,
    ) -> None:
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow to load

        super().__init__()
        self._configs = configs
        self._environ = environ
        self._transport = transport
        self._key_file = key_file
        for name in dict.fromkeys((*addresses().providers, *configs)):
            self.register_lazily(name, partial(self._connect, name))
        for name, make in _own().items():
            self.register_lazily(name, make)
        for point in entry_points(group=ENTRY_POINTS):
            self.register_lazily(point.name, partial(_made, point), replace=True)

    def get(self, name: str | None = None) -> ProviderAdapter | None:
        """Also by the other names that people type."""
        if name is not None and name not in self:
            address = find_address(name)
            name = address.name if address is not None else name
        return super().get(name)

    def configured(self) -> list[str]:
        """The names of those that could be asked now: they have a key, or need none and somebody said where they are."""
        return [name for name in self.list() if self._is_configured(name)]

    def _is_configured(self, name: str) -> bool:
        config = self._configs.get(name, _UNTOLD)
        address = address_of(name, config)
        if address is None:
            return name in self._adapters
        try:
            base_url_of(address, config, self._environ)
        except UsageError:
            return False
        if not address.needs_key:
            return True
        try:
            return key_of(address, config, environ=self._environ, key_file=self._key_file).find() is not None
        except SegueError:  # a command that fails gives no key
            return False

    def _connect(self, name: str) -> ProviderAdapter:
        return connect(
            name,
            self._configs.get(name, _UNTOLD),
            environ=self._environ,
            transport=self._transport,
            key_file=self._key_file,
        )


def default_registry(
    configs: Mapping[str, ProviderConfig] | None = None,
    environ: Mapping[str, str] = os.environ,
    transport: Transport | None = None,
    *,
    key_file: Path | None = None,
) -> KnownProviders:
    """All providers that are known. None is made, and no key looked for, before it is asked for."""
    return KnownProviders(configs or {}, environ, transport, key_file)


def _own() -> dict[str, Make]:
    """Providers that are no address: they answer in this process."""
    makers: dict[str, Make] = {"scripted": ScriptedProvider}
    if find_spec("segue.providers.embedded") is not None:
        makers["embedded"] = partial(_call, "segue.providers.embedded", "EmbeddedProvider")
    return makers


def _call(module: str, name: str) -> ProviderAdapter:
    made: ProviderAdapter = getattr(import_module(module), name)()
    return made


def _made(point: EntryPoint) -> ProviderAdapter:
    """A provider of another package, whose mistakes are its own."""
    try:
        adapter: ProviderAdapter = point.load()()
    except Exception as error:
        raise UsageError(
            f'Provider "{point.name}" of the package it came with cannot be made: {type(error).__name__}: {error}.',
            code="provider_not_loaded",
            hint=f"It is {point.value}; ask its authors, or remove the package.",
        ) from error
    return adapter
