"""Application Default Credentials: the way Google's own tools find credentials, through google-auth.

A file that GOOGLE_APPLICATION_CREDENTIALS names (a service account, a user, a federated identity), the file that
`gcloud auth application-default login` writes, or the metadata server of a machine in Google Cloud.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.errors import CredentialsError
from segue.providers.credentials import AccessToken, not_installed
from segue.providers.credentials.keys import Secret

if TYPE_CHECKING:
    from email.message import Message

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_USUAL_FILE: Final = "application_default_credentials.json"
_TITLE: Final = "Google (Application Default Credentials)"
_SECONDS: Final = 30.0
_READERS: Final[Mapping[Any, tuple[str, str]]] = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
}
"""Of a kind of file: the module and the function that reads it."""


@final
class GoogleTokens(Struct, frozen=True, kw_only=True):
    """Tokens for Google Cloud. `chosen`: the user asked for them, so that they may come from the metadata server."""

    place: str
    environ: Mapping[str, str]
    scope: str = SCOPE
    quota_project: str = ""
    chosen: bool = False
    title: str = _TITLE

    def check(self) -> None:
        if find_spec("google") is None or find_spec("google.auth") is None:
            raise not_installed(self.title, "google", self.place)
        path = credentials_file(self.environ)
        if path is None and not self.chosen and "GCE_METADATA_HOST" not in self.environ:
            raise CredentialsError(
                "There are no Google credentials on this machine.",
                code="missing_key",
                path=self.place,
                hint=self.remedy(),
            )
        if path is not None and not path.is_file():
            raise CredentialsError(
                f"The file that {FILE} names does not exist.",
                code="missing_key",
                path=self.place,
                hint=self.remedy(),
            )

    def remedy(self) -> str:
        return (
            f"Run: gcloud auth application-default login. Or set {FILE} to the file of a service account. On a machine in "
            'Google Cloud, set credentials = "adc" for its own identity.'
        )

    def fetch(self) -> AccessToken:
        self.check()
        path = credentials_file(self.environ)
        found = self._from_file(path) if path is not None else self._from_machine()
        found.refresh(_request)
        payer = self.quota_project or getattr(found, "quota_project_id", None) or ""
        headers = {"x-goog-user-project": payer} if payer else {}
        # google-auth keeps the end as UTC without a zone.
        return AccessToken(Secret(found.token), found.expiry.replace(tzinfo=UTC).timestamp(), headers)

    def _from_file(self, path: Path) -> Any:
        """google-auth wants each kind of file read by the reader for it; the rarer ones it finds by itself."""
        held = msgspec.json.decode(path.read_bytes())
        module = _READERS.get(held.get("type") if isinstance(held, dict) else None)
        if module is None:
            google_auth: Any = import_module("google.auth")
            return google_auth.default(scopes=[self.scope], request=_request)[0]
        name, reader = module
        read: Any = getattr(import_module(name).Credentials, reader)
        return read(held, scopes=[self.scope])

    def _from_machine(self) -> Any:
        return import_module("google.auth.compute_engine").Credentials(scopes=[self.scope])


def credentials_file(environ: Mapping[str, str]) -> Path | None:
    """The file that is named, or the one that gcloud writes if it is there."""
    if named := environ.get(FILE):
        return Path(named)
    folder = environ.get("CLOUDSDK_CONFIG")
    if not folder:
        home = environ.get("APPDATA" if os.name == "nt" else "HOME", "")
        folder = f"{home}/gcloud" if os.name == "nt" else f"{home}/.config/gcloud"
    usual = Path(folder) / _USUAL_FILE
    return usual if usual.is_file() else None


def project_in_file(environ: Mapping[str, str]) -> str:
    """The project of a service account; empty if the file names none."""
    path = credentials_file(environ)
    try:
        held = msgspec.json.decode(path.read_bytes()) if path is not None else {}
    except (OSError, msgspec.DecodeError):
        return ""
    named = held.get("project_id") if isinstance(held, dict) else None
    return named if isinstance(named, str) else ""


@final
class _Response(Struct, frozen=True):
    """As google-auth reads it."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _request(
    url: str,
    method: str = "GET",
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **unused: Any,
) -> _Response:
    """google-auth's requests, with the standard library: its own transport loads a second HTTP client."""
    del unused
    data = body.encode() if isinstance(body, str) else body
    asked = urllib.request.Request(url, data, dict(headers or {}), method=method)  # noqa: S310 - of the file's own
    try:
        with urllib.request.urlopen(asked, timeout=timeout or _SECONDS) as answer:  # noqa: S310
            return _Response(answer.status, _lower(answer.headers), answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return _Response(refused.code, _lower(refused.headers), refused.read())


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
