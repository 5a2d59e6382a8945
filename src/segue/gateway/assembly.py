"""A gateway with all that its settings describe: providers, memory, accounts and who gets reports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from segue.config.resources import open_providers
from segue.gateway.accounts.register import Accounts
from segue.gateway.app import Gateway
from segue.gateway.stores import open_account_store, open_memory
from segue.gateway.telemetry.observation import observe
from segue.gateway.telemetry.reporters import Reporters

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.gateway.memory.memory import Memory
    from segue.gateway.watcher import GatewayWatcher
    from segue.providers.registry import KnownProviders


def open_gateway(
    config: Config,
    *,
    local: bool = True,
    providers: KnownProviders | None = None,
    memory: Memory | None = None,
    earlier: Gateway | None = None,
    watcher: GatewayWatcher | None = None,
) -> Gateway:
    """`local`: only this machine reaches it. `providers`, `memory`: in place of those that the settings describe. `earlier`: the
    gateway that this one replaces; what only the process keeps is taken over. `watcher`: the inspector, if there is one."""
    settings = config.gateway
    reporters = Reporters(settings)
    providers = open_providers(config) if providers is None else providers
    gateway = Gateway(
        config,
        providers,
        memory or open_memory(config, earlier.memory if earlier is not None else None),
        accounts=Accounts(
            open_account_store(config, earlier.accounts.store if earlier is not None else None),
            settings.callers,
            settings.accounts,
            local=local,
            on_reserve=reporters.reserve,
            prices=providers.prices,
        ),
        metrics=reporters.metrics,
        on_report=reporters.record,
        on_close=reporters.close,
        watcher=watcher,
    )
    reporters.watch(partial(observe, gateway))
    return gateway
