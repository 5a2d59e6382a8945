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
    owner = _owner(key)
    other = "" if owner is None or owner.name == address.name else f"looks like a key of {owner.title}."
    if not address.key_prefixes:
        return f"It {other}" if other else ""
    if key.startswith(address.key_prefixes):
        return ""
    begins = f"A key of {address.title} begins with {' or '.join(address.key_prefixes)}."
    return f"{begins} This one {other}" if other else begins


def _owner(key: str) -> Address | None:
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
