"""Makes a provider from its address and its configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segue.dialects.registry import DIALECTS
from segue.errors import SegueError, UsageError
from segue.providers.addresses import address_of, complete_url, split_url
from segue.providers.auth import Key, KeySources, Secret
from segue.providers.aws import REGION, AwsAccess, missing_region, region_of
from segue.providers.capabilities import ConfigProblem
from segue.providers.config import ProviderConfig, check_config
from segue.providers.endpoint import Endpoint
from segue.providers.provider import Provider
from segue.transports.http import DEFAULT_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.providers.addresses import Address
    from segue.providers.auth import Access
    from segue.transports.transport import Transport

_UNSET = ProviderConfig()


def connect(
    name: str,
    config: ProviderConfig = _UNSET,
    *,
    api_key: str = "",
    environ: Mapping[str, str] = os.environ,
    transport: Transport | None = None,
    key_file: Path | None = None,
    keyring: bool = True,
) -> Provider:
    """The provider of this name. No request is sent and no key is looked for until it is used."""
    address = address_of(name, config)
    if address is None:
        raise UsageError(
            f'Provider "{name}" is not known.',
            code="unknown_provider",
            hint=f"Give it an address: providers.{name}.base_url.",
        )
    key = access_of(address, config, api_key=api_key, environ=environ, key_file=key_file, keyring=keyring)
    always = _headers(address, config, environ)
    base_url, query, login = split_url(base_url_of(address, config, environ))
    version = {"api-version": config.api_version} if config.api_version else {}
    first, *others = (DIALECTS[dialect] for dialect in address.dialects)
    endpoint = Endpoint(
        provider=address.name,
        dialect=first,
        base_url=base_url,
        ready=key.ready,
        headers=lambda: {**login, **key.headers(), **always},
        sign=key.sign if isinstance(key, AwsAccess) else None,
        transport=transport or DEFAULT_TRANSPORT,
        timeouts=config.timeouts,
        limits=config.limits,
        query={**query, **config.query, **version},
    )
    return Provider(
        endpoint,
        others=others,
        key=key,
        address=address,
        model=config.model,
        context=config.context,
        problems=lambda: [*check_config(name, config, environ), *_check_key(address, key)],
    )


def access_of(
    address: Address,
    config: ProviderConfig,
    *,
    api_key: str = "",
    environ: Mapping[str, str] = os.environ,
    key_file: Path | None = None,
    keyring: bool = True,
) -> Key | AwsAccess:
    """What requests to a provider are let in with."""
    key = key_of(address, config, api_key=api_key, environ=environ, key_file=key_file, keyring=keyring)
    if address.auth != "aws":
        return key
    region = region_of(config, environ)
    return AwsAccess(address, key, region=region, profile=config.profile, environ=environ)


def _check_key(address: Address, key: Access) -> list[ConfigProblem]:
    """A key that cannot be had is a problem of the configuration, too."""
    try:
        key.headers()
    except SegueError as error:
        return [
            ConfigProblem(field=f"providers.{address.name}.api_key", message=error.message, hint=error.hint)
        ]
    return []


def key_of(
    address: Address,
    config: ProviderConfig,
    *,
    api_key: str = "",
    environ: Mapping[str, str] = os.environ,
    key_file: Path | None = None,
    keyring: bool = True,
) -> Key:
    """Where the key of a provider is looked for."""
    given = Secret(api_key) if api_key else config.api_key
    return Key(
        address,
        KeySources(
            given=given if isinstance(given, Secret) else None,
            variable=config.api_key_env,
            command=config.key_command,
            variables=address.key_env,
            environ=environ,
            keyring=keyring,
            file=key_file,
        ),
    )


def base_url_of(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """The configuration comes first, then the environment, then what is known."""
    if config.base_url:
        return complete_url(config.base_url, address)
    set_there = next((environ[name] for name in address.base_url_env if environ.get(name)), "")
    if set_there:
        return complete_url(set_there, address, in_environment=True)
    if REGION in address.base_url:
        region = region_of(config, environ)
        if not region:
            raise missing_region(address)
        return address.base_url.replace(REGION, region)
    if address.base_url:
        return address.base_url
    variable = f", or {address.base_url_env[0]}" if address.base_url_env else ""
    raise UsageError(
        f"{address.title} has no address of its own.",
        code="no_base_url",
        path=f"providers.{address.name}.base_url",
        hint=f"Set providers.{address.name}.base_url{variable}.",
    )


def _headers(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> dict[str, str]:
    headers = dict(address.headers)
    organization = config.organization or environ.get(address.organization_env, "")
    if organization:
        headers["openai-organization"] = organization
    if config.project:
        headers["openai-project"] = config.project
    headers.update(config.headers)
    return {name.lower(): value for name, value in headers.items()}
