"""What every request for a page has to pass, and what every answer carries.

The name in `Host` comes first: a page of a stranger whose name was led to this machine sends a GET without an Origin, and a POST
whose Origin equals its Host. Whatever changes something needs a request of our own page: same origin by the browser's word, JSON,
and the word of the session in a header.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final

from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.gateway.requests.web import WebRequest

_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_PLAIN_PORTS: Final = {"http": 80, "https": 443}
_MOST_HOST: Final = 255
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


def port_of(scope: Mapping[str, Any]) -> int:
    server = scope.get("server")
    return int(server[1]) if server and server[1] else 0


def check_host(head: WebRequest, scope: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Raises unless the name is one of this machine with our port, or one of the settings."""
    host, port = head.headers.get("host", "").lower(), port_of(scope)
    own = {f"{name}:{port}" for name in _LOCAL_NAMES}
    if port == _PLAIN_PORTS.get(str(scope.get("scheme", "http"))):
        own.update(_LOCAL_NAMES)
    if len(host) > _MOST_HOST or (host not in own and host not in {name.lower() for name in hosts}):
        raise refusal()


def check_fetch(head: WebRequest) -> None:
    """Raises for what another site has a browser fetch or show in a frame. A link that leads here is followed."""
    site, mode = head.headers.get("sec-fetch-site", ""), head.headers.get("sec-fetch-mode", "")
    top = mode == "navigate" and head.headers.get("sec-fetch-dest", "document") == "document"
    if site in ("cross-site", "same-site") and not (top and head.method == "GET"):
        raise refusal()


def check_write(head: WebRequest, csrf: str | None) -> None:
    """Raises for whatever was not sent by a page of ours. `csrf`: the word of the session; None before a login."""
    kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    if head.headers.get("sec-fetch-site") != "same-origin" or kind != "application/json":
        raise refusal()
    if csrf is not None and not hmac.compare_digest(
        head.headers.get("x-segue-token", "").encode(), csrf.encode()
    ):
        raise refusal()


def refusal() -> InvalidRequestError:
    """Strangers are told nothing."""
    return InvalidRequestError("Refused.", code="refused", status=403)


def cookie_in(head: WebRequest, name: str) -> str:
    for part in head.headers.get("cookie", "").replace(", ", "; ").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""
