"""The proxies that the environment names."""

from __future__ import annotations

from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from collections.abc import Mapping


@final
class EnvironmentProxies:
    """As they were when it was made: the search takes longer than all else that precedes a request."""

    def __init__(self) -> None:
        self._proxies: Mapping[str, str] = getproxies()

    def proxy_for(self, url: str) -> str | None:
        """None if the address is asked directly."""
        if not self._proxies:
            return None
        parts = urlsplit(url)
        found = self._proxies.get(parts.scheme) or self._proxies.get("all")
        if not found or _is_here(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        return found if "://" in found else f"http://{found}"


def _is_here(host: str) -> bool:
    """Whether this very machine is meant. A proxy would look for the server on its own."""
    from ipaddress import ip_address  # noqa: PLC0415 - who has no proxy need not load it

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
