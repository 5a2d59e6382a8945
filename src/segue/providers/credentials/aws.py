"""Access to AWS: an API key of Bedrock, or credentials that sign each request (AWS-01, AWS-02).

Credentials are found as AWS's own tools find them: in the environment by ourselves; profiles, single sign-on, roles and
instance metadata by botocore, which is in the extra `aws` and loaded when it is needed.
"""

from __future__ import annotations

import configparser
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from segue.dialects.sigv4 import SigningKeys, sign
from segue.errors import CredentialsError, UsageError
from segue.providers.credentials import Keeper, not_installed
from segue.providers.hosts.addresses import Address
from segue.text.redaction import forget_secret, remember_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.providers.config import ProviderConfig
    from segue.providers.credentials.keys import Key

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SIGNED: Final = ("content-type", "x-amzn-", "x-amz-", "anthropic-")
"""How the headers begin that are signed; what is between us and AWS may change all others."""
_REGION_IN_HOST = re.compile(r"(?:^|//)[a-z-]+\.([a-z]{2,4}(?:-[a-z]+)+-\d)\.")
_SOURCES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that name a source of credentials."""
_AHEAD_SECONDS: Final = 900.0
"""Credentials of a machine are replaced some minutes before they end."""


def region_of(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """Where requests go; empty if nobody says it. There is no default: models and prices differ."""
    if config.region:
        return config.region
    set_there = next((environ[name] for name in address.base_url_env if environ.get(name)), "")
    in_address = _REGION_IN_HOST.search(config.base_url or set_there)
    if in_address is not None:
        return in_address[1]
    named = next((environ[name] for name in REGION_VARIABLES if environ.get(name)), "")
    return named or _profile_region(config.profile, environ)


def _profile_region(profile: str, environ: Mapping[str, str]) -> str:
    """The region of the profile in the file that AWS's tools read."""
    name = profile or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_file(environ, "AWS_CONFIG_FILE", "config").read_text("utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return ""
    section = "default" if name == "default" else f"profile {name}"
    return parser.get(section, "region", fallback="").strip()


def _file(environ: Mapping[str, str], variable: str, name: str) -> Path:
    given = environ.get(variable)
    return (
        Path(given).expanduser() if given else Path(environ.get("HOME") or "~").expanduser() / ".aws" / name
    )


def missing_region(address: Address) -> UsageError:
    return UsageError(
        f"{address.title} is in many regions, and none is named.",
        code="no_region",
        path=f"providers.{address.name}.region",
        hint=f"Set AWS_REGION, or providers.{address.name}.region.",
    )


@final
class AwsCredentials(Struct, frozen=True):
    """What requests are signed with, and when it ends, in seconds since 1970."""

    signing: SigningKeys
    expires_at: float = inf

    def __repr__(self) -> str:
        return "AwsCredentials(***)"

    def forget(self) -> None:
        forget_secret(self.signing.secret)
        forget_secret(self.signing.token)


@final
class AwsSource(Struct, frozen=True, kw_only=True):
    """Credentials of AWS. `profile`: the one in its tools' files that is to be used."""

    address: Address
    environ: Mapping[str, str]
    profile: str = ""
    title: str = "AWS"

    def __repr__(self) -> str:
        return "AwsSource(***)"

    def is_named(self) -> bool:
        """Whether anything names a source of credentials. Machines in the cloud may have one that nothing names."""
        environ = self.environ
        files = (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config"))
        return (
            bool(self.profile)
            or any(environ.get(name) for name in _SOURCES)
            or any(_file(environ, variable, name).is_file() for variable, name in files)
        )

    def check(self) -> None:
        if self._in_environment() is not None or find_spec("botocore") is not None:
            return
        if self.is_named():
            raise not_installed(self.title, "aws", f"providers.{self.address.name}")
        raise self.missing()

    def remedy(self) -> str:
        profile = self.profile or self.environ.get("AWS_PROFILE", "")
        login = f"aws sso login{f' --profile {profile}' if profile else ''}"
        return (
            f"Run: {login}. Or, without single sign-on: aws sts get-caller-identity. It shows what is wrong."
        )

    def fetch(self) -> AwsCredentials:
        self.check()
        found = self._in_environment()
        if found is not None:
            return found
        session: Any = import_module("botocore.session")  # an optional package, slow to load
        # A session of its own gives new credentials also where the old ones still hold.
        source = session.Session(profile=self.profile or None).get_credentials()
        frozen = source.get_frozen_credentials() if source is not None else None
        if frozen is None or not frozen.access_key:
            raise self.missing()
        ends = getattr(source, "_expiry_time", None)
        return _held(
            frozen.access_key,
            frozen.secret_key,
            frozen.token or "",
            ends.timestamp() if isinstance(ends, datetime) else inf,
        )

    def _in_environment(self) -> AwsCredentials | None:
        environ = self.environ
        access_key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
        if self.profile or not (access_key and secret):
            return None
        return _held(access_key, secret, environ.get("AWS_SESSION_TOKEN", ""))

    def missing(self) -> CredentialsError:
        return CredentialsError(
            f"There is neither a key for {self.address.title} nor are there credentials of AWS.",
            code="missing_key",
            path=f"providers.{self.address.name}",
            hint=(
                f"Set {self.address.key_env[0]}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or install "
                f'"segue-llm[aws]" and log in with AWS\'s own tools: aws configure, aws sso login.'
            ),
        )


def _held(access_key: str, secret: str, token: str, expires_at: float = inf) -> AwsCredentials:
    remember_secret(secret)
    remember_secret(token)
    return AwsCredentials(SigningKeys(access_key, secret, token), expires_at)


@final
class AwsAccess:
    """How requests to one provider are authorised: its API key if there is one (AWS-01), else signatures."""

    def __init__(
        self,
        address: Address,
        key: Key,
        *,
        region: str,
        profile: str = "",
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._key = key
        self._region = region
        self._clock = clock
        self._source = AwsSource(address=address, environ=environ, profile=profile)
        self._keeper = Keeper(self._source, f"providers.{address.name}", clock, _AHEAD_SECONDS)

    def __repr__(self) -> str:
        return f"AwsAccess({self._address.name})"

    @property
    def known(self) -> bool:
        return self._key.known and (self._key.find() is not None or self._keeper.known)

    async def ready(self) -> None:
        await self._key.ready()
        if self._key.find() is None:
            await self._keeper.ready()

    def headers(self) -> Mapping[str, str]:
        """What a request carries beside its signature."""
        if self._key.find() is not None:
            return self._key.headers()
        self._keeper.current()
        return {}

    def forget(self) -> None:
        self._key.forget()
        self._keeper.forget()

    def check(self) -> None:
        if self._key.find() is not None:
            self._key.check()
        elif self._source.is_named():
            self._keeper.check()
        else:
            raise self._source.missing()

    def is_offered(self) -> bool:
        return self._key.find() is not None or (self._source.is_named() and self._keeper.is_offered())

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers that sign a request; none if it carries a key."""
        if self._key.find() is not None:
            return {}
        if not self._region:
            raise missing_region(self._address)
        signed = {name: value for name, value in headers.items() if name.startswith(_SIGNED)}
        return sign(
            method,
            url,
            signed,
            body,
            self._keeper.current().signing,
            region=self._region,
            service=self._address.service,
            moment=datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%dT%H%M%SZ"),
        )
