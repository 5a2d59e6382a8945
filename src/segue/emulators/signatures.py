"""Seals that really bind: readable claims with an HMAC over them, so that a verifier can say which no longer holds."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = b"the emulators' own secret"


def digest(value: object) -> str:
    """SHA-256 of a JSON value in canonical form (keys sorted, no spaces)."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _mac(secret: bytes, body: bytes) -> bytes:
    # The length in characters stands first: so it is in the seals of requests that are kept as files.
    return hmac.digest(secret, b"%d:%b|" % (len(body.decode()), body), "sha256")


def seal(secret: bytes, claims: Mapping[str, str], prefix: str = "") -> str:
    body = msgspec.json.encode(dict(claims), order="sorted")
    return prefix + urlsafe_b64encode(_mac(secret, body) + body).decode()


def unseal(secret: bytes, sealed: str, prefix: str = "") -> dict[str, str] | None:
    """The claims inside, or None when the seal is foreign, cut or altered."""
    if not sealed.startswith(prefix):
        return None
    try:
        # urlsafe_b64decode skips foreign characters silently; the round trip refuses them.
        raw = urlsafe_b64decode(sealed[len(prefix) :].encode("ascii"))
        mac, body = raw[:32], raw[32:]
        if prefix + urlsafe_b64encode(raw).decode() != sealed:
            return None
        if not hmac.compare_digest(mac, _mac(secret, body)):
            return None
        return msgspec.json.decode(body, type=dict[str, str])
    except (ValueError, msgspec.DecodeError):
        return None
