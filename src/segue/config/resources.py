"""What the settings describe, opened: providers, routers, the sandbox and MCP servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import structs, to_builtins

from segue.config.paths import (
    keys_file,
    mcp_lists_directory,
    outputs_directory,
    user_file,
)
from segue.config.trust import is_trusted
from segue.errors import UsageError
from segue.providers.config import read_provider_config
from segue.providers.hosts.addresses import find_address
from segue.providers.models.prices import PriceBook
from segue.providers.registry import KnownProviders
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from segue.config.schema import Config, McpServerSettings, McpSettings, ProfileSettings, SandboxMode
    from segue.providers.adapter import ProviderAdapter
    from segue.routing.route import Route
    from segue.routing.router import Router
    from segue.tools.mcp.servers import McpServers
    from segue.tools.sandbox.sandbox import Sandbox


def open_providers(config: Config) -> KnownProviders:
    """All providers, configured. No request is sent yet."""
    configs = {name: read_provider_config(name, table)[0] for name, table in config.providers.items()}
    providers = KnownProviders(configs, key_file=keys_file())
    if config.prices:
        providers.prices = PriceBook({**providers.price_rules, **config.prices})
    return providers


def require_provider(name: str, providers: KnownProviders) -> ProviderAdapter:
    found = providers.get(name)
    if found is None:
        raise unknown_provider(name, providers.list())
    return found


def unknown_provider(name: str, known: Collection[str]) -> UsageError:
    return UsageError(
        f'There is no provider "{name}".',
        code="unknown_provider",
        hint=suggestion(name, known)
        or f"Known providers: {', '.join(known)}. Any other needs providers.{name}.base_url.",
    )


def configured_providers(config: Config, providers: KnownProviders) -> list[str]:
    """Providers that somebody set up: with a key, a section, or a variable with their address."""
    return [name for name in providers.configured() if _was_set_up(name, config)]


def is_set_up(name: str, config: Config, providers: KnownProviders) -> bool:
    """Whether a provider is one of them."""
    return _was_set_up(name, config) and providers.is_configured(name)


def _was_set_up(name: str, config: Config) -> bool:
    address = find_address(name)
    if name in config.providers or address is None:  # without an address: a model in this process
        return True
    return address.needs_key or any(os.environ.get(variable) for variable in address.base_url_env)


def local_provider_names() -> list[str]:
    """Providers that may be running on this machine without being configured."""
    from segue.providers.hosts.addresses import addresses  # noqa: PLC0415

    return [name for name, address in addresses().providers.items() if address.start and address.base_url]


def open_router(
    name: str, routes: tuple[Route, ...], settings: ProfileSettings | None, providers: KnownProviders
) -> Router:
    """A router over several models; `settings` is the profile, None for a plain failover."""
    from segue.routing.profiles import Profile, build_router  # noqa: PLC0415
    from segue.routing.route import facts_from  # noqa: PLC0415

    members = tuple(route.name for route in routes)
    profile = Profile(name=name, members=members)
    if settings is not None:
        weights = {
            members[settings.members.index(member)]: weight for member, weight in settings.weights.items()
        }
        profile = structs.replace(
            profile,
            policy=settings.policy,
            weights=weights,
            context=settings.context_limit,
            retry=settings.retry,
            breaker=settings.breaker,
        )
    resolve = dict(zip(members, routes, strict=True)).__getitem__
    return build_router(profile, facts_from(providers), resolve=resolve)


def open_sandbox(config: Config, workspace: Path, mode: SandboxMode | None = None) -> Sandbox:
    """What commands run in; `mode`: in place of the one in the settings."""
    from segue.tools.sandbox.policy import Grant, SandboxLimits  # noqa: PLC0415 - a chat without tools pays nothing
    from segue.tools.sandbox.sandbox import Sandbox  # noqa: PLC0415

    settings = config.sandbox
    return Sandbox(
        workspace,
        mode or settings.mode,
        grant=Grant(
            tuple(settings.writable),
            (*settings.readable, str(outputs_directory())),
            tuple(settings.hosts),
        ),
        hidden=[*settings.hidden, str(user_file()), str(keys_file().parent)],
        variables=settings.variables,
        limits=SandboxLimits(memory=settings.memory, processes=settings.processes),
    )


def open_servers(
    settings: McpSettings, file: Path | None, sandbox: Sandbox | None = None
) -> tuple[McpServers | None, Path | None]:
    """All servers that may be used, or None if there are none; and the project's file if it is not read, because the user
    has not trusted it. A server starts when its tools are requested, or if their list is kept when one of them is called."""
    from segue.tools.mcp.config import read_servers  # noqa: PLC0415 - most chats have none
    from segue.tools.mcp.servers import McpServers  # noqa: PLC0415

    data = None if file is None else file.read_bytes()
    untrusted = None
    if file is not None and not is_trusted(file, data):
        file, untrusted = None, file
    if not settings.servers and file is None:
        return None, untrusted
    own = {
        name: {"tool_timeout_sec": settings.timeout, **_written_fields(server)}
        for name, server in settings.servers.items()
    }
    servers, problems = read_servers({"mcpServers": own}, os.environ)
    if file is not None:
        more, wrong = read_servers(file, os.environ, data=data)  # what was checked is what is used
        taken = {server.name for server in servers}
        servers += [server for server in more if server.name not in taken]
        problems |= wrong
    opened = McpServers(
        servers, cache=mcp_lists_directory(), sandbox="workspace" if sandbox is None else sandbox
    )
    opened.problems.update(problems)
    return opened, untrusted


def _written_fields(server: McpServerSettings) -> dict[str, object]:
    """A server as written in the settings, without defaults."""
    fields: dict[str, object] = to_builtins(server)
    written = {key: value for key, value in fields.items() if value not in ("", [], {}, None, False)}
    if server.hosts is not None:
        written["hosts"] = server.hosts
    return {**written, "sandbox": server.sandbox}
