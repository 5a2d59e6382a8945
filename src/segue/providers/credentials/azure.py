"""Entra ID: the way Microsoft's own tools find credentials, through azure-identity.

The variables of a service principal (AZURE_CLIENT_ID and its secret or certificate), a workload identity, the managed
identity of a machine in Azure, or the login of `az login`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, final

from msgspec import Struct, field

from segue.errors import CredentialsError
from segue.providers.credentials import AccessToken, not_installed
from segue.providers.credentials.keys import Secret

SCOPE: Final = "https://ai.azure.com/.default"
"""Of Foundry; resources of older kinds want https://cognitiveservices.azure.com/.default."""
_TITLE: Final = "Microsoft Entra ID"
_SIGNS: Final = (
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
)
"""Variables of which one is set where programs are meant to sign in this way."""


@final
class EntraTokens(Struct, kw_only=True, eq=False):
    """Tokens for Azure. `chosen`: the user asked for them, so that `az login` and a machine's own identity are tried, too."""

    place: str
    environ: Mapping[str, str]
    scope: str = SCOPE
    chosen: bool = False
    title: str = _TITLE
    _credential: Any = None
    _lock: Lock = field(default_factory=Lock)

    def __repr__(self) -> str:
        return "EntraTokens(***)"

    def check(self) -> None:
        if not self.chosen and not any(self.environ.get(name) for name in _SIGNS):
            raise CredentialsError(
                "There is no key, and no Entra ID credentials are set.",
                code="missing_key",
                path=self.place,
                hint=self.remedy(),
            )
        if find_spec("azure") is None or find_spec("azure.identity") is None:
            raise not_installed(self.title, "azure", self.place)

    def remedy(self) -> str:
        return (
            'Set credentials = "entra" and run: az login. Or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET. '
            'The identity needs the role "Cognitive Services User" or "Foundry User" at the resource; if the token is for '
            "another audience, set scope."
        )

    def fetch(self) -> AccessToken:
        self.check()
        with self._lock:
            if self._credential is None:
                from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - of the extra `azure`, slow to load

                # Whoever names another authority trusts it: it is not looked up among Microsoft's.
                own = bool(self.environ.get("AZURE_AUTHORITY_HOST"))
                self._credential = DefaultAzureCredential(disable_instance_discovery=own)
        found = self._credential.get_token(self.scope)
        return AccessToken(Secret(found.token), float(found.expires_on))
