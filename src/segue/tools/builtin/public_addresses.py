"""Which addresses are the public network's, so that a model cannot reach what is behind our own walls.

The check is made on the very addresses that are then connected to, so a name cannot mean one thing when it is checked
and another when it is used.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an address, as digits, belongs to the public network."""
    try:
        address: IpAddress = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(one.is_global and not one.is_multicast for one in _meanings(address))


def _meanings(address: IpAddress) -> list[IpAddress]:
    """The address, or the older one that it carries inside: routers along the way unwrap it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address]


class NotPublicError(OSError):
    """A name leads to an address that may not be reached."""


class PublicResolver(AbstractResolver):
    """Looks names up and gives public addresses only."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if not all(is_public(result["host"]) for result in found):
            raise NotPublicError(f"{host} is not on the public network")
        return found

    async def close(self) -> None:
        await self._resolver.close()
