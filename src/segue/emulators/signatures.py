"""Seals that really bind: HMACs over who issued what, for which model, after which prefix.

`issue`/`verify` bind to a list of parts that the verifier can compute itself. `seal`/`unseal` carry readable claims
inside, so that a verifier can also say which of them no longer holds.
"""

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


def _mac(secret: bytes, parts: tuple[str, ...]) -> bytes:
    # Lengths first, so that ("ab", "c") and ("a", "bc") differ.
    text = "".join(f"{len(part)}:{part}|" for part in parts)
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def issue(secret: bytes, *parts: str, prefix: str = "") -> str:
    """A seal over e.g. platform, account, model, digest(prefix), index, text."""
    return prefix + urlsafe_b64encode(_mac(secret, parts)).decode()


def verify(secret: bytes, signature: str, *parts: str, prefix: str = "") -> bool:
    return hmac.compare_digest(
        issue(secret, *parts, prefix=prefix).encode(), signature.encode("utf-8", "surrogatepass")
    )


def seal(secret: bytes, claims: Mapping[str, str], prefix: str = "") -> str:
    body = msgspec.json.encode(dict(claims), order="sorted")
    return prefix + urlsafe_b64encode(_mac(secret, (body.decode(),)) + body).decode()


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
        if not hmac.compare_digest(mac, _mac(secret, (body.decode(),))):
            return None
        return msgspec.json.decode(body, type=dict[str, str])
    except (ValueError, msgspec.DecodeError):
        return None
