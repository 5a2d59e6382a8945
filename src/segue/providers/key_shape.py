"""Whether a text can be a provider's key, judged before it is stored: by its letters, its length and its beginning."""

from __future__ import annotations

from typing import Final

from segue.providers.addresses import Address, addresses

SHORTEST: Final = 16
"""Characters of a key of a provider that issues keys; local servers take any word."""


def shape_problem(key: str, address: Address | None) -> str:
    """What speaks against the key, in a sentence; "" if nothing does. `address`: None for a provider of one's own."""
    if not key.isascii() or any(letter.isspace() or not letter.isprintable() for letter in key):
        return "It contains spaces, control characters or letters that no key has."
    if address is None or not address.needs_key:
        return ""
    if len(key) < SHORTEST:
        return f"It has {len(key)} characters, and a key of {address.title} has more."
    if address.key_prefixes and not key.startswith(address.key_prefixes):
        known = " or ".join(address.key_prefixes)
        return f"A key of {address.title} begins with {known}.{_owner(key)}"
    other = _most_specific(key)
    if other is not None and other.name != address.name and not address.key_prefixes:
        return f"It looks like a key of {other.title}."
    return ""


def _owner(key: str) -> str:
    owner = _most_specific(key)
    return f" This one looks like a key of {owner.title}." if owner is not None else ""


def _most_specific(key: str) -> Address | None:
    """The provider whose keys begin so; None if several do or none."""
    fitting = [
        (len(prefix), address)
        for address in addresses().providers.values()
        for prefix in address.key_prefixes
        if key.startswith(prefix)
    ]
    longest = max((length for length, _ in fitting), default=0)
    owners = [address for length, address in fitting if length == longest]
    return owners[0] if len(owners) == 1 else None
