"""The key of this installation: encrypts what is kept, and signs what is looked up or given to clients.

It lies in a file that only its owner may read. Each purpose has a subkey of its own, so that what was made for one
purpose proves nothing for another.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import struct
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, final

from segue.errors import JournalError
from segue.system.private_files import create_private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KEY_BYTES: Final = 32
DIGEST_BYTES: Final = 20
NONCE_BYTES: Final = 12
_KEPT_BEGINNINGS: Final = 256
_SIZE: Final = struct.Struct(">Q").pack
_STANDARD: Final = str.maketrans("-_", "+/")


@final
class InstallationKey:
    """Digests and encryption under one secret."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to load

        if len(secret) != KEY_BYTES:
            raise JournalError(
                f"The installation's key has {len(secret)} bytes instead of {KEY_BYTES}.", code="bad_key"
            )
        digest_key = _derive(secret, b"digest")
        self._begun = lru_cache(_KEPT_BEGINNINGS)(
            lambda *parts: blake2b(_joined(parts), key=digest_key, digest_size=DIGEST_BYTES)
        )
        """The digest of the first parts, which return with each request of a caller."""
        self._cipher = AESGCM(_derive(secret, b"encrypt"))

    def __repr__(self) -> str:
        return "InstallationKey(…)"

    def digest(self, *parts: str | bytes) -> bytes:
        """A keyed digest of parts that cannot be confused with other parts."""
        made = self._begun(*parts[:2]).copy()
        made.update(_joined(parts[2:]))
        return made.digest()

    def digests(self, parts: tuple[str | bytes, ...], ends: Iterable[str | bytes]) -> list[bytes]:
        """For each of the ends the digest of the parts with it behind them."""
        begun = self._begun(*parts)
        made: list[bytes] = []
        for end in ends:
            one = begun.copy()
            data = end if type(end) is bytes else end.encode("utf-8", "surrogatepass")  # type: ignore[union-attr]
            one.update(_SIZE(len(data)) + data)
            made.append(one.digest())
        return made

    def encrypt(self, data: bytes, *, bound_to: bytes) -> bytes:
        """Only `decrypt` with the same `bound_to` reads it again."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, bound_to)

    def decrypt(self, data: bytes, *, bound_to: bytes) -> bytes | None:
        """None if it was made with another key, for something else, or was changed."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - slow to load

        if len(data) < NONCE_BYTES:
            return None
        try:
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to)
        except InvalidTag:
            return None


def read_key(file: Path) -> InstallationKey:
    """The key in this file; the file is made if it is not there. Several processes may do so at once."""
    new = base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    return decode_key(create_private(file, new + "\n"), str(file))


def decode_key(text: str, place: str) -> InstallationKey:
    """The key in a text that came from a file or a variable. The text is never repeated."""
    try:
        inner = text.strip().rstrip("=").translate(_STANDARD)
        secret = base64.b64decode(inner + "=" * (-len(inner) % 4), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise JournalError(
            f"This should hold the key of the installation, {KEY_BYTES} bytes in base64, but it does not.",
            code="bad_key",
            path=place,
            hint="Restore the file or the variable from a backup. If it is lost, remove it: what was remembered with it is lost too.",
        )
    return InstallationKey(secret)


def _joined(parts: tuple[str | bytes, ...]) -> bytes:
    joined: list[bytes] = []
    for part in parts:
        data = part if type(part) is bytes else part.encode("utf-8", "surrogatepass")  # type: ignore[union-attr]
        joined += (_SIZE(len(data)), data)
    return b"".join(joined)


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"segue gateway: " + purpose, "sha256")
