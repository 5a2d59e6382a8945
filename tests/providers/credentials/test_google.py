"""Application Default Credentials, with google-auth, against stand-ins of Google's servers on loopback."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from providers.credentials.token_servers import TokenServer, token_server
from segue.errors import CredentialsError
from segue.providers.credentials import TokenKeeper
from segue.providers.credentials.google import SCOPE, GoogleTokens, project_in_file

GIVEN = "ya29.stand-in-token-0123456789"


def gives(
    method: str, path: str, headers: dict[str, str], form: dict[str, str]
) -> tuple[int, dict[str, object]]:
    if path.startswith("/computeMetadata") and headers.get("metadata-flavor") != "Google":
        return 403, {"error": "no metadata-flavor"}
    if "/service-accounts/default/?" in path:
        return 200, {"email": "robot@p.iam.gserviceaccount.com", "scopes": [SCOPE], "aliases": ["default"]}
    if form.get("refresh_token") == "revoked":
        return 400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    del method
    return 200, {"access_token": GIVEN, "expires_in": 3599, "token_type": "Bearer"}


def written(path: Path, fields: dict[str, Any]) -> dict[str, str]:
    path.write_text(json.dumps(fields))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}


def service_account(token_uri: str) -> dict[str, Any]:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "k1",
        "private_key": pem.decode(),
        "client_email": "robot@my-project.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }


def user(token_uri: str, refreshed_by: str = "1//refresh") -> dict[str, Any]:
    return {
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": "not-much-of-a-secret",
        "refresh_token": refreshed_by,
        "quota_project_id": "who-pays",
        "token_uri": token_uri,
    }


def _lead_users_to(google: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """google-auth does not take the address of users' tokens from their file."""
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{google.url}/token")


def keeper(environ: dict[str, str], **settings: Any) -> TokenKeeper:
    return TokenKeeper(
        GoogleTokens(place="providers.vertex", environ=environ, **settings), "providers.vertex"
    )


def test_a_service_account_signs_for_its_token(tmp_path: Path) -> None:
    with token_server(gives) as google:
        environ = written(tmp_path / "sa.json", service_account(f"{google.url}/token"))
        assert keeper(environ).headers() == {"authorization": f"Bearer {GIVEN}"}
    assert project_in_file(environ) == "my-project"
    (_, path, _, form) = google.asked[0]
    assert path == "/token"
    claims = form["assertion"].split(".")[1]
    asked = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (asked["iss"], asked["scope"]) == ("robot@my-project.iam.gserviceaccount.com", SCOPE)


def test_the_login_of_gcloud_is_found_where_gcloud_writes_it_and_names_who_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with token_server(gives) as google:
        _lead_users_to(google, monkeypatch)
        written(tmp_path / "application_default_credentials.json", user(f"{google.url}/token"))
        headers = keeper({"CLOUDSDK_CONFIG": str(tmp_path)}).headers()
    assert headers == {"authorization": f"Bearer {GIVEN}", "x-goog-user-project": "who-pays"}
    assert google.asked[0][3].get("refresh_token", "") in ("1//refresh",)


def test_the_configured_quota_project_counts_more_than_the_one_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with token_server(gives) as google:
        _lead_users_to(google, monkeypatch)
        environ = written(tmp_path / "user.json", user(f"{google.url}/token"))
        headers = keeper(environ, quota_project="we-pay").headers()
    assert headers["x-goog-user-project"] == "we-pay"


def test_a_machine_in_google_cloud_asks_its_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with token_server(gives) as google:
        # google-auth reads GCE_METADATA_HOST when it is loaded.
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", google.host)
        assert keeper({"HOME": "/nowhere"}, chosen=True).headers() == {"authorization": f"Bearer {GIVEN}"}
    assert any("/service-accounts/" in path and "/token" in path for _, path, *_ in google.asked)


def test_a_login_that_was_revoked_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with token_server(gives) as google:
        _lead_users_to(google, monkeypatch)
        environ = written(tmp_path / "user.json", user(f"{google.url}/token", "revoked"))
        with pytest.raises(CredentialsError) as caught:
            keeper(environ).headers()
    assert "Token has been expired or revoked." in caught.value.message
    assert "gcloud auth application-default login" in caught.value.hint
    assert "not-much-of-a-secret" not in str(caught.value)


def test_a_machine_without_credentials_is_told_so_without_a_request(tmp_path: Path) -> None:
    nothing = keeper({"HOME": str(tmp_path)})
    assert not nothing.is_offered()
    with pytest.raises(CredentialsError, match="no Google credentials") as caught:
        nothing.headers()
    assert caught.value.code == "missing_key"
    with pytest.raises(CredentialsError, match="does not exist"):
        keeper({"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "gone.json")}).check()


def test_a_file_that_is_no_credentials_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = written(tmp_path / "odd.json", {"type": "strange"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", environ["GOOGLE_APPLICATION_CREDENTIALS"])
    with pytest.raises(CredentialsError, match="gives no credentials") as caught:
        keeper(environ).headers()
    assert caught.value.hint
