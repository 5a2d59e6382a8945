"""Which addresses are the public network's, so that a model cannot reach what is behind our own walls.

The check is made when a socket is opened for an address, on that address: no spelling of a name, no second look-up and
no redirect comes after it.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from aiohttp import AddrInfoType

IpAddress: TypeAlias = IPv4Address | IPv6Address

_ASSIGNED: Final = IPv6Network("2000::/3")
"""All that is routed between networks; the rest is local, reserved, or an IPv4 address in other clothes."""
_DOCUMENTATION: Final = IPv6Network("3fff::/20")  # Python 3.11 does not know it yet
_NOT_ROUTED: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))
"""Python calls them global, but clouds answer there with the settings and keys of a machine."""
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_TUNNELLED: Final = (0x00005EFE, 0x02005EFE)
"""ISATAP: what stands before the IPv4 address in the lower half."""
_LOW_32: Final = 0xFFFFFFFF


class NotPublicError(OSError):
    """An address that may not be reached was about to be connected to."""


def public_socket(address: AddrInfoType) -> socket.socket:
    """A socket for this address, for aiohttp's connector."""
    family, kind, protocol, _, where = address
    if not is_public(str(where[0])):
        raise NotPublicError("it is not on the public network")
    return socket.socket(family, kind, protocol)


def is_public(text: str) -> bool:
    """Whether an address, as digits, belongs to the public network."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(_is_global(one) for one in _meanings(address))


def _is_global(address: IpAddress) -> bool:
    if isinstance(address, IPv6Address) and (address not in _ASSIGNED or address in _DOCUMENTATION):
        return False
    if isinstance(address, IPv4Address) and any(address in network for network in _NOT_ROUTED):
        return False
    return address.is_global and not address.is_multicast


def _meanings(address: IpAddress) -> list[IpAddress]:
    """The address, or the IPv4 addresses that it carries inside: routers along the way unwrap them."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    inner = IPv4Address(int(address) & _LOW_32)
    if address in _TRANSLATED:
        return [inner]
    return [address, inner] if int(address) >> 32 & _LOW_32 in _TUNNELLED else [address]
