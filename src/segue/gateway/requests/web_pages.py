"""Web pages in a browser: which of them may use the gateway.

Without callers whoever reaches the gateway may use it, and every page in the user's browser reaches this machine. So a page
needs to be allowed by its origin, and a name that leads here without being one of this machine's own is refused.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from segue.errors import InvalidRequestError
from segue.gateway.requests.web import WebResponse
from segue.text.url_patterns import matches_origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.gateway.requests.web import WebRequest

_EXPOSED: Final = "x-request-id, x-segue-route, x-segue-conversation, x-segue-repairs, x-segue-losses, x-segue-cache, x-segue-count"
_SECONDS: Final = "600"
"""How long a browser may remember what a page is allowed."""


@final
class WebPages:
    """`origins`: those that are allowed, with * for any part of a host or any port."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = tuple(origin.rstrip("/").lower() for origin in origins)

    def headers(self, head: WebRequest) -> dict[str, str]:
        """What lets the browser show a response to the page that asked for it."""
        origin = head.headers.get("origin")
        if origin is None or not self._allows(origin):
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED,
            "vary": "origin",
        }

    def preflight(self, head: WebRequest) -> WebResponse | None:
        """The answer to a browser that asks what a page may send; None if it is another request."""
        asked = head.headers
        if head.method != "OPTIONS" or "access-control-request-method" not in asked:
            return None
        if not self._allows(asked.get("origin", "")):
            raise _not_allowed(asked.get("origin", ""))
        allowed = {
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-allow-headers": asked.get("access-control-request-headers", "*"),
            "access-control-max-age": _SECONDS,
        }
        if "access-control-request-private-network" in asked:
            allowed["access-control-allow-private-network"] = "true"
        return WebResponse(status=204, headers=allowed)

    def check(self, head: WebRequest) -> None:
        """Raises if a page sent this request that is not allowed to. For gateways that know their callers by no key."""
        asked: Mapping[str, str] = head.headers
        origin = asked.get("origin")
        if origin is not None:
            if not self._allows(origin):
                raise _not_allowed(origin)
            return
        if asked.get("sec-fetch-site") == "cross-site":
            raise _not_allowed("another site")
        host = asked.get("host", "")
        if host and not _is_this_machine(host) and not self._allows_host(host):
            raise InvalidRequestError(
                f'The gateway serves this machine only, not the name "{host[:100]}".',
                code="host_not_allowed",
                status=403,
                hint="Use http://127.0.0.1, or give the caller a key: segue gateway keys create NAME",
            )

    def _allows(self, origin: str) -> bool:
        return bool(origin) and any(matches_origin(origin.lower(), known) for known in self._origins)

    def _allows_host(self, host: str) -> bool:
        return self._allows(f"http://{host}") or self._allows(f"https://{host}")


@lru_cache(maxsize=256)
def _is_this_machine(host: str) -> bool:
    """Whether a name can only mean this machine: any other may be led here by whoever owns it."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost" or name.lower().endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _not_allowed(origin: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Pages of {origin[:100] or 'this origin'} may not use the gateway.",
        code="origin_not_allowed",
        status=403,
        hint="The operator of the gateway can allow them: gateway.origins.",
    )
