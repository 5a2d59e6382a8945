"""All providers by name: registered ones, and known ones that are made when first used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from segue.errors import SegueError, UsageError
from segue.plugins import contributions
from segue.providers.config import IN_PROCESS, ProviderConfig
from segue.providers.factory import connect, credentials_of
from segue.providers.hosts.addresses import address_of, addresses, base_url_of, find_address
from segue.providers.models.prices import CATALOG_PRICES, PriceBook, PriceRule, prices_of
from segue.providers.scripted import ScriptedProvider
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from pathlib import Path

    from segue.plugins import Contribution
    from segue.providers.adapter import ProviderAdapter, Providers
    from segue.transports.transport import Transport

Make: TypeAlias = Callable[[], "ProviderAdapter"]
_UNSET: Final = ProviderConfig()
_LOG: Final = logging.getLogger(__name__)


class ProviderRegistry:
    """Finds providers by name. One of them may be the default."""

    def __init__(self) -> None:
        self._makers: dict[str, Make] = {}
        self._made: dict[str, ProviderAdapter] = {}
        self._default = ""
        self.prices = CATALOG_PRICES
        """What replies of these providers cost."""

    def register(self, adapter: ProviderAdapter, *, replace: bool = False) -> None:
        """Known under its own name. Another one of the same name is refused, unless it is to be replaced."""
        name = getattr(adapter, "name", "")
        _checked(name, adapter)
        self.register_lazily(name, lambda: adapter, replace=replace)
        self._made[name] = adapter

    def register_lazily(self, name: str, make: Make, *, replace: bool = False) -> None:
        """Like `register`, but the provider is made when it is first asked for."""
        if not _is_name(name):
            raise UsageError("A provider needs a name.", code="bad_provider_name", hint="Give it one.")
        if name in self and not replace:
            raise UsageError(
                f'Provider "{name}" is registered already.',
                code="duplicate_provider",
                hint="Give it another name, or replace the one that is there: replace=True.",
            )
        self._made.pop(name, None)
        self._makers[name] = make

    def get(self, name: str | None = None) -> ProviderAdapter | None:
        """The provider of this name, None if there is none; without a name, the default."""
        if name is None:
            return self.get_default()
        adapter = self._made.get(name)
        if adapter is None and name in self._makers:
            adapter = self._made[name] = _checked(name, self._makers[name]())
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
        del self._makers[name]
        self._made.pop(name, None)
        if self._default == name:
            self._default = ""

    def list(self) -> list[str]:
        """All names, each once, in the order in which they were registered."""
        return list(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip())


def _checked(name: str, adapter: ProviderAdapter) -> ProviderAdapter:
    if not callable(getattr(adapter, "chat_stream", None)):
        raise UsageError(
            f'Provider "{name}" has no chat_stream.',
            code="not_a_provider",
            hint="See segue.providers.adapter.ProviderAdapter.",
        )
    return adapter


def names_of(providers: Providers) -> list[str]:
    """The names that providers can be found by; empty where they cannot be listed."""
    if isinstance(providers, Mapping):
        return list(providers)
    listed = getattr(providers, "list", None)
    return listed() if callable(listed) else []


def not_registered(name: str, known: list[str]) -> UsageError:
    return UsageError(
        f'Provider "{name}" not registered',
        code="unknown_provider",
        hint=f"{suggestion(name, known)} Known are: {', '.join(known)}.".lstrip()
        if known
        else "None is registered yet.",
    )


class KnownProviders(ProviderRegistry):
    """Every provider whose address is known or configured, and those that other packages offer."""

    def __init__(
        self,
        configs: Mapping[str, ProviderConfig],
        environ: Mapping[str, str] = os.environ,
        transport: Transport | None = None,
        *,
        key_file: Path | None = None,
        keyring: bool = True,
    ) -> None:
        super().__init__()
        self._configs = configs
        self._environ = environ
        self.price_rules = _price_rules(configs)
        """What names of the user's own cost: those of deployments, and those of further accounts."""
        self.prices = PriceBook(self.price_rules)
        self._credentials_of = partial(credentials_of, environ=environ, key_file=key_file, keyring=keyring)
        self._knows_plugins = False
        make = partial(connect, environ=environ, transport=transport, key_file=key_file, keyring=keyring)
        self._makers = {
            name: partial(make, name, configs.get(name, _UNSET)) for name in addresses().providers
        }
        for name, config in configs.items():
            if name not in self._makers and name not in IN_PROCESS:
                self.register_lazily(name, partial(make, name, config))
        self._makers["scripted"] = ScriptedProvider
        self._makers["embedded"] = partial(_embedded, configs.get("embedded", _UNSET))

    def _add_plugins(self) -> None:
        """Those of other packages: looked for when a name is not known, or all names are asked for."""
        if self._knows_plugins:
            return
        self._knows_plugins = True
        for offered in contributions("provider"):
            if offered.name in self._makers:
                _LOG.warning(
                    '%s offers a provider "%s"; the one of this name is kept', offered.package, offered.name
                )
            else:
                self.register_lazily(offered.name, partial(plugin_provider, offered))

    def get(self, name: str | None = None) -> ProviderAdapter | None:
        """Also by the other names that people type."""
        return super().get(name if name is None or name in self._makers else self._proper(name))

    def __contains__(self, name: object) -> bool:
        if name not in self._makers:
            self._add_plugins()
        return name in self._makers

    def set_default(self, name: str) -> None:
        super().set_default(self._proper(name))

    def _proper(self, name: str) -> str:
        address = None if name in self else find_address(name)
        return name if address is None else address.name

    def configured(self) -> list[str]:
        """Those that have all they need, be it a key or a model, and registered ones.

        May ask commands for keys.
        """
        return [name for name in self.list() if self.is_configured(name)]

    def is_configured(self, name: str) -> bool:
        """Whether one has all that it needs."""
        config = self._configs.get(name, _UNSET)
        address = address_of(name, config)
        if address is None:
            return self._has_a_model(name) if name == "embedded" else name in self._made
        try:
            base_url_of(address, config, self._environ)
        except UsageError:
            return False
        try:
            return self._credentials_of(address, config).is_offered()
        except SegueError:  # a command that fails gives no key
            return False

    def _has_a_model(self, name: str) -> bool:
        try:
            return bool(getattr(self.get(name), "is_available", lambda: True)())
        except SegueError:
            return False

    def list(self) -> list[str]:
        self._add_plugins()
        return super().list()


class GivenProviders(KnownProviders):
    """Only those that a program gives, by the names that it gives them. Nothing else is looked for."""

    def __init__(self, given: Providers) -> None:
        super().__init__({}, {}, keyring=False)
        self._makers = {}
        self._knows_plugins = True
        self._given = given
        self.prices = prices_of(given)
        for name in names_of(given):
            self.register_lazily(name, partial(self._one, name))

    def _one(self, name: str) -> ProviderAdapter:
        found = self._given.get(name)
        if found is None:
            raise not_registered(name, names_of(self._given))
        return found

    def get(self, name: str | None = None) -> ProviderAdapter | None:
        """Also one that cannot be listed."""
        found = super().get(name)
        return self._given.get(name) if found is None and name is not None else found

    def is_configured(self, name: str) -> bool:
        return name in self


def _price_rules(configs: Mapping[str, ProviderConfig]) -> dict[str, PriceRule]:
    rules: dict[str, PriceRule] = {}
    for name, config in configs.items():
        maker = getattr(find_address(config.like or name), "name", name)
        if config.like:
            rules[f"{name}/*"] = PriceRule(like=f"{maker}/*")
        behind = {"*": config.model_of} if isinstance(config.model_of, str) else config.model_of
        rules |= {
            f"{name}/{given}": PriceRule(like=f"{maker}/{model}") for given, model in behind.items() if model
        }
    return rules


def default_registry(
    configs: Mapping[str, ProviderConfig] | None = None,
    environ: Mapping[str, str] = os.environ,
    transport: Transport | None = None,
    *,
    key_file: Path | None = None,
    keyring: bool = True,
) -> KnownProviders:
    """All providers that are known. None is made, and no key looked for, before it is used."""
    return KnownProviders(configs or {}, environ, transport, key_file=key_file, keyring=keyring)


def _embedded(config: ProviderConfig) -> ProviderAdapter:
    from segue.providers.embedded import EmbeddedProvider  # noqa: PLC0415 - loaded by those who use it

    return EmbeddedProvider(model=config.model, threads=config.threads or 1, context=config.context)


def plugin_provider(offered: Contribution) -> ProviderAdapter:
    """A provider of another package, which gives a function without parameters that makes one."""
    make = offered.load()
    try:
        return _checked(offered.name, make())
    except Exception as error:
        raise offered.failure("cannot be made", error) from error
