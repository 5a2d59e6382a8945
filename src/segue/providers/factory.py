"""Makes a provider from its address and its configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segue.dialects.registry import DIALECTS
from segue.errors import SegueError, UsageError
from segue.providers.capabilities import ConfigProblem
from segue.providers.config import ProviderConfig, check_config
from segue.providers.credentials import KeyOrToken, TokenKeeper
from segue.providers.credentials.aws import AwsAccess, region_of
from segue.providers.credentials.keys import Key, KeySources, Secret
from segue.providers.endpoint import Endpoint
from segue.providers.hosts.addresses import address_of, base_url_of, filled_places, split_url, unknown_like
from segue.providers.provider import Provider
from segue.transports.http import DEFAULT_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from segue.providers.credentials import AccessToken, Credentials, Source
    from segue.providers.hosts.addresses import Address
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
        raise unknown_like(name, config) or UsageError(
            f'Provider "{name}" is not known.',
            code="unknown_provider",
            hint=f"Give it an address: providers.{name}.base_url.",
        )
    key = credentials_of(
        address, config, api_key=api_key, environ=environ, key_file=key_file, keyring=keyring
    )
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
        errors_by_header={name: DIALECTS[dialect] for name, dialect in address.errors_by_header.items()},
        services=address.services,
        models_path=address.models_path,
    )
    return Provider(
        endpoint,
        others=others,
        key=key,
        address=address,
        model=config.model,
        context=config.context,
        model_behind=config.model_behind,
        problems=lambda: [*check_config(name, config, environ), *_check_key(address, key)],
    )


def _check_key(address: Address, key: Credentials) -> list[ConfigProblem]:
    """A key that cannot be had is a problem of the configuration, too."""
    try:
        key.check()
    except SegueError as error:
        return [
            ConfigProblem(field=f"providers.{address.name}.api_key", message=error.message, hint=error.hint)
        ]
    return []


def credentials_of(
    address: Address,
    config: ProviderConfig,
    *,
    api_key: str = "",
    environ: Mapping[str, str] = os.environ,
    key_file: Path | None = None,
    keyring: bool = True,
) -> Credentials:
    """What requests to a provider are signed in with: a key, or what a cloud gives where the provider takes it."""
    key = key_of(address, config, api_key=api_key, environ=environ, key_file=key_file, keyring=keyring)
    if config.credentials == "key":
        return key
    if address.service:
        region = region_of(address, config, environ)
        return AwsAccess(address, key, region=region, profile=config.profile, environ=environ)
    kind = config.credentials if config.credentials in ("adc", "entra") else address.token
    if not kind:
        return key
    keeper = TokenKeeper(_token_source(kind, address, config, environ), f"providers.{address.name}")
    return keeper if config.credentials else KeyOrToken(key, keeper)


def _token_source(
    kind: str, address: Address, config: ProviderConfig, environ: Mapping[str, str]
) -> Source[AccessToken]:
    place, chosen = f"providers.{address.name}", bool(config.credentials)
    if kind == "adc":
        from segue.providers.credentials import google  # noqa: PLC0415 - of one cloud

        payer = config.quota_project or environ.get("GOOGLE_CLOUD_QUOTA_PROJECT", "")
        return google.GoogleTokens(
            place=place,
            environ=environ,
            scope=address.scope or google.SCOPE,
            quota_project=payer,
            chosen=chosen,
        )
    from segue.providers.credentials import azure  # noqa: PLC0415 - of one cloud

    return azure.EntraTokens(place=place, environ=environ, scope=address.scope or azure.SCOPE, chosen=chosen)


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


def _headers(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {
        name: filled_places(value, address, config, environ) for name, value in address.headers.items()
    }
    organization = config.organization or environ.get(address.organization_env, "")
    if organization:
        headers["openai-organization"] = organization
    if config.project and "project" not in address.places:
        headers["openai-project"] = config.project
    headers.update(config.headers)
    return {name.lower(): value for name, value in headers.items()}
