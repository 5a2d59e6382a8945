"""Access to AWS: an API key of Bedrock, or credentials that sign each request (AWS-01, AWS-02).

Credentials are found as AWS's own tools find them: in the environment by ourselves; profiles, single sign-on, roles and
instance metadata by botocore, which is in the extra `aws` and loaded when it is needed. What lasts for a while is renewed in a
thread, before it ends.
"""

from __future__ import annotations

import asyncio
import configparser
import re
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, final

from segue.dialects.sigv4 import Credentials, sign
from segue.errors import CredentialsError, UsageError
from segue.providers.auth import FoundKey, Key, Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.providers.addresses import Address
    from segue.providers.config import ProviderConfig

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SIGNED: Final = ("content-type", "x-amzn-", "x-amz-", "anthropic-")
"""How the headers begin that are signed; what is between us and AWS may change all others."""
_REGION_IN_HOST = re.compile(r"//[a-z-]+\.([a-z]{2,4}(?:-[a-z]+)+-\d)\.")
_SOURCES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that name a source of credentials."""
_AHEAD: Final = timedelta(minutes=15)
_LATEST: Final = timedelta(minutes=5)
"""Credentials are renewed in the background from the first moment before their end on, and waited for from the second on."""


def region_of(config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """Where requests go; empty if nobody says it. There is no default: models and prices differ."""
    if config.region:
        return config.region
    in_address = _REGION_IN_HOST.search(config.base_url)
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


def require_region(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    region = region_of(config, environ)
    if not region:
        raise missing_region(address)
    return region


def missing_region(address: Address) -> UsageError:
    return UsageError(
        f"{address.title} is in many regions, and none is named.",
        code="no_region",
        path=f"providers.{address.name}.region",
        hint=f"Set AWS_REGION, or providers.{address.name}.region.",
    )


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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._address = address
        self._key = key
        self._region = region
        self._profile = profile
        self._environ = environ
        self._now = now
        self._lock = Lock()
        self._credentials: Credentials | None = None
        self._ends: datetime | None = None
        self._renewal: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"AwsAccess({self._address.name})"

    @property
    def known(self) -> bool:
        return self._key.known

    def is_offered(self) -> bool:
        """Whether there is a source of credentials, without asking any. Machines in the cloud may have one that nothing
        names."""
        environ = self._environ
        named = bool(self._profile) or any(environ.get(name) for name in _SOURCES)
        files = (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config"))
        return (
            self._key.find() is not None
            or named
            or any(_file(environ, variable, name).is_file() for variable, name in files)
        )

    def find(self) -> FoundKey | None:
        """The API key, or what requests are signed with. May ask a server: call it in a thread."""
        found = self._key.find()
        if found is not None:
            return found
        credentials = self._current()
        return (
            FoundKey(Secret(credentials.secret), "the credentials of AWS")
            if credentials is not None
            else None
        )

    async def ready(self) -> None:
        await self._key.ready()
        if self._key.find() is not None:
            return
        if self._credentials is None or self._ends_within(_LATEST):
            await asyncio.to_thread(self._current)
        elif self._ends_within(_AHEAD) and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.ensure_future(self._renew_ahead())

    async def _renew_ahead(self) -> None:
        try:
            await asyncio.to_thread(self._renew)
        except CredentialsError:
            return  # those that are there still hold; the next request tries again

    def forget(self) -> None:
        """They were refused: there may be newer ones."""
        self._key.forget()
        with self._lock:
            self._credentials = self._ends = None

    def headers(self) -> Mapping[str, str]:
        """What a request carries beside its signature."""
        if self._key.find() is not None:
            return self._key.headers()
        if self._current() is None:
            raise self._missing()
        return {}

    def check(self) -> None:
        """Raises what is wrong with them. May ask a server."""
        self.headers()

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers that sign a request; none if it carries a key."""
        credentials = self._current() if self._key.find() is None else None
        if credentials is None:
            return {}
        if not self._region:
            raise missing_region(self._address)
        signed = {name: value for name, value in headers.items() if name.startswith(_SIGNED)}
        moment = self._now().strftime("%Y%m%dT%H%M%SZ")
        service = self._address.service
        return sign(
            method, url, signed, body, credentials, region=self._region, service=service, moment=moment
        )

    # Credentials

    def _ends_within(self, span: timedelta) -> bool:
        return self._ends is not None and self._now() + span >= self._ends

    def _current(self) -> Credentials | None:
        """Those that hold now. Blocks while they are renewed; whoever waits for the same takes the new ones."""
        with self._lock:
            if self._credentials is None or self._ends_within(_LATEST):
                self._find_or_renew()
            return self._credentials

    def _renew(self) -> None:
        with self._lock:
            if self._ends_within(_AHEAD):
                self._find_or_renew()

    def _find_or_renew(self) -> None:
        found = self._in_environment()
        if found is not None:
            self._credentials, self._ends = found, None
            return
        botocore = self._botocore()
        if botocore is None:
            return
        try:
            # A session of its own gives new credentials also where the old ones still hold.
            source = botocore.session.Session(profile=self._profile or None).get_credentials()
            frozen = source.get_frozen_credentials() if source is not None else None
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise self._unavailable(error) from None
        if frozen is None or not frozen.access_key:
            return
        Secret(frozen.secret_key)
        Secret(frozen.token or "")
        self._credentials = Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")
        ends = getattr(source, "_expiry_time", None)
        self._ends = ends if isinstance(ends, datetime) else None

    def _in_environment(self) -> Credentials | None:
        environ = self._environ
        access_key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
        if self._profile or not (access_key and secret):
            return None
        token = environ.get("AWS_SESSION_TOKEN", "")
        Secret(secret)
        Secret(token)
        return Credentials(access_key, secret, token)

    def _botocore(self) -> Any:
        """None if it is not installed, and nothing shows that it is needed."""
        try:  # an optional package, slow to load
            for name in ("botocore.exceptions", "botocore.session"):
                import_module(name)
            return import_module("botocore")
        except ImportError:
            if self._profile or self._environ.get("AWS_PROFILE"):
                raise CredentialsError(
                    f"The profile for {self._address.title} is read by botocore, which is not installed.",
                    code="aws_extra_missing",
                    path=f"providers.{self._address.name}.profile",
                    hint='Run: pip install "segue-llm[aws]"',
                ) from None
            return None

    def _missing(self) -> CredentialsError:
        return CredentialsError(
            f"There is neither a key for {self._address.title} nor are there credentials of AWS.",
            code="missing_key",
            path=f"providers.{self._address.name}",
            hint=(
                f"Set {self._address.key_env[0]}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or install "
                f'"segue-llm[aws]" and log in with AWS\'s own tools: aws configure, aws sso login.'
            ),
        )

    def _unavailable(self, error: Exception) -> CredentialsError:
        profile = self._profile or self._environ.get("AWS_PROFILE", "")
        login = f"aws sso login{f' --profile {profile}' if profile else ''}"
        signed_out = "SSO" in type(error).__name__ or "Token" in type(error).__name__
        return CredentialsError(
            f"AWS gave no credentials for {self._address.title}: {error}",
            code="credentials_unavailable",
            path=f"providers.{self._address.name}",
            hint=f"Run: {login}"
            if signed_out
            else "Run: aws sts get-caller-identity. It shows what is wrong.",
        )
