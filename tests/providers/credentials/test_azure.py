"""Entra ID, with azure-identity, against stand-ins of Microsoft's servers on loopback."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from providers.credentials.token_servers import in_an_hour, token_server
from segue.errors import CredentialsError
from segue.providers.credentials import TokenKeeper
from segue.providers.credentials.azure import SCOPE, EntraTokens

GIVEN = "eyJ0eXAi.stand-in.token"
PROOF = "client~secret~0123456789"
TENANT = "11111111-2222-3333-4444-555555555555"


def keeper(environ: dict[str, str], **settings: Any) -> TokenKeeper:
    return TokenKeeper(EntraTokens(place="providers.azure", environ=environ, **settings), "providers.azure")


def signs_in(
    method: str, path: str, headers: dict[str, str], form: dict[str, str]
) -> tuple[int, dict[str, object]]:
    del method, headers
    if path.endswith("/.well-known/openid-configuration"):
        base = f"https://login.stand-in/{TENANT}"
        return 200, {
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{signs_in.url}/{TENANT}/oauth2/v2.0/token",  # type: ignore[attr-defined]
            "issuer": f"{base}/v2.0",
        }
    if form.get("client_secret") != PROOF:
        return 401, {
            "error": "invalid_client",
            "error_description": "AADSTS7000215: Invalid client secret provided.",
            "error_codes": [7000215],
        }
    return 200, {"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": GIVEN}


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
        "IDENTITY_ENDPOINT",
        "MSI_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("secret", "good"), [(PROOF, True), ("another~secret~0123456789", False)])
def test_a_service_principal_signs_in_with_its_secret(
    clean: pytest.MonkeyPatch, tmp_path: Path, secret: str, *, good: bool
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with token_server(signs_in, context) as entra:
        signs_in.url = entra.url  # type: ignore[attr-defined]
        environ = {
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": "app",
            "AZURE_CLIENT_SECRET": secret,
            "AZURE_AUTHORITY_HOST": entra.url,
        }
        for name, value in environ.items():
            clean.setenv(name, value)
        clean.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        # Only this way of signing in: the others would ask programs and machines that are not there.
        clean.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
        held = keeper(environ)
        if good:
            assert held.headers() == {"authorization": f"Bearer {GIVEN}"}
        else:
            with pytest.raises(CredentialsError) as caught:
                held.headers()
            assert "AADSTS7000215" in caught.value.message
            assert "az login" in caught.value.hint
            assert secret not in str(caught.value)
    form = next(form for *_, form in entra.asked if "scope" in form)
    assert SCOPE in form["scope"]
    assert form["grant_type"] == "client_credentials"


def test_a_managed_identity_asks_its_machine_for_the_configured_scope(clean: pytest.MonkeyPatch) -> None:
    def gives(
        method: str, path: str, headers: dict[str, str], form: dict[str, str]
    ) -> tuple[int, dict[str, object]]:
        del method, form, path
        if headers.get("x-identity-header") != "proof-of-the-machine":
            return 400, {"error": "no x-identity-header"}
        return 200, {
            "access_token": GIVEN,
            "expires_on": str(in_an_hour()),
            "resource": "r",
            "token_type": "Bearer",
        }

    with token_server(gives) as machine:
        environ = {"IDENTITY_ENDPOINT": f"{machine.url}/msi/token", "IDENTITY_HEADER": "proof-of-the-machine"}
        for name, value in environ.items():
            clean.setenv(name, value)
        clean.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
        older = "https://cognitiveservices.azure.com/.default"
        assert keeper(environ, scope=older).headers() == {"authorization": f"Bearer {GIVEN}"}
    assert "resource=https://cognitiveservices.azure.com" in machine.asked[0][1]


def test_where_nothing_is_set_no_request_is_sent() -> None:
    nothing = keeper({})
    assert not nothing.is_offered()
    with pytest.raises(CredentialsError, match="no Entra ID credentials") as caught:
        nothing.headers()
    assert caught.value.code == "missing_key"
    assert keeper({}, chosen=True).is_offered()
