"""AWS Signature Version 4: what a signed request carries, and whether one was signed with a secret (AWS-02, BDR-10).

Pure: the moment is given. `tests/dialects/test_sigv4.py` compares it with botocore.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEME: Final = "AWS4-HMAC-SHA256"
_END = "aws4_request"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/")
_ESCAPES: Final = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256))
_AUTHORIZATION = re.compile(
    rf"{SCHEME}\s+Credential=(?P<credential>[^,\s]+)\s*,\s*SignedHeaders=(?P<headers>[^,\s]+)\s*,\s*"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)


@final
class SigningKeys(Struct, frozen=True):
    """What requests are signed with. Never shown."""

    access_key: str
    secret: str
    token: str = ""
    """Of credentials that last for a while."""

    def __repr__(self) -> str:
        return "SigningKeys(***)"


@final
class Signed(Struct, frozen=True):
    """What the header of a signed request says of its signature."""

    access_key: str
    day: str
    region: str
    service: str
    headers: tuple[str, ...]
    signature: str


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: SigningKeys,
    *,
    region: str,
    service: str,
    moment: str,
) -> dict[str, str]:
    """The headers that sign a request, beside those given, all of which are signed (names in lower case). `moment` as in
    ``20261118T010203Z``."""
    host, target = split_url(url)
    added = {"x-amz-date": moment}
    if credentials.token:
        added["x-amz-security-token"] = credentials.token
    signed = {"host": host, **headers, **added}
    names = sorted(signed)
    scope = f"{moment[:8]}/{region}/{service}/{_END}"
    signature = _signature(credentials.secret, moment, scope, _canonical(method, target, signed, names, body))
    added["authorization"] = (
        f"{SCHEME} Credential={credentials.access_key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return added


def read_authorization(value: str) -> Signed | None:
    """None if it is no signature of this kind."""
    found = _AUTHORIZATION.fullmatch(value.strip())
    parts = found["credential"].rsplit("/", 4) if found is not None else []
    if found is None or len(parts) != 5 or parts[4] != _END:
        return None
    access_key, day, region, service, _ = parts
    return Signed(access_key, day, region, service, tuple(found["headers"].split(";")), found["signature"])


def is_signed_with(
    secret: str, signed: Signed, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> bool:
    """Whether a request, as it arrived, was signed with this secret. `target`: path and query as they were sent; `headers`:
    names in lower case."""
    if "host" not in signed.headers or any(name not in headers for name in signed.headers):
        return False
    moment = headers.get("x-amz-date", "")
    if not moment.startswith(signed.day) or "x-amz-date" not in signed.headers:
        return False
    scope = f"{signed.day}/{signed.region}/{signed.service}/{_END}"
    canonical = _canonical(method, target, headers, signed.headers, body)
    return hmac.compare_digest(_signature(secret, moment, scope, canonical), signed.signature)


def split_url(url: str) -> tuple[str, str]:
    """The host as its header has it, without the usual port, and the path with its query."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    end = min((at for mark in "/?" if (at := rest.find(mark)) >= 0), default=len(rest))
    host = rest[:end].rpartition("@")[2].lower()
    usual = {"http": ":80", "https": ":443"}.get(scheme.lower(), "")
    return host.removesuffix(usual) if usual else host, rest[end:]


def _canonical(
    method: str, target: str, headers: Mapping[str, str], names: Iterable[str], body: bytes
) -> str:
    path, _, query = target.partition("?")
    names = list(names)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
    pairs = sorted((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")))
    return "\n".join(
        (
            method.upper(),
            _escaped(_normal(path)),
            "&".join(f"{name}={value}" for name, value in pairs) if query else "",
            *lines,
            "",
            ";".join(names),
            sha256(body).hexdigest(),
        )
    )


def _normal(path: str) -> str:
    """Without dots that lead up and down, and without empty steps."""
    kept: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del kept[-1:]
        elif step not in ("", "."):
            kept.append(step)
    if not path:
        return "/"
    return ("/" if path[0] == "/" else "") + "/".join(kept) + ("/" if path[-1] == "/" and kept else "")


def _escaped(path: str) -> str:
    """BDR-10: what is escaped already is escaped once more."""
    return "".join([_ESCAPES[byte] for byte in path.encode()])


def _signature(secret: str, moment: str, scope: str, canonical: str) -> str:
    to_sign = "\n".join((SCHEME, moment, scope, sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()
