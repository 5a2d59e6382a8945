"""Simulated prompt caching: the longest prefix that an earlier request had in common, in tokens."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Key: TypeAlias = tuple[str, str, str]
"""Provider, account, model: nothing is shared across any of them."""


def _prefixes(segments: Sequence[object]) -> Iterator[tuple[bytes, int]]:
    """For each leading run of segments: its chained hash and its size in tokens."""
    chain, size = b"", 0
    for segment in segments:
        data = msgspec.json.encode(segment)
        chain = hashlib.sha256(chain + hashlib.sha256(data).digest()).digest()
        size += len(data)
        yield chain, -(-size // 4)


def size(segments: Sequence[object]) -> int:
    """Tokens of a prompt in the measure of the cache: four bytes of JSON are one."""
    return -(-sum(len(msgspec.json.encode(segment)) for segment in segments) // 4)


class PromptCache:
    """Remembers the prefixes of accepted prompts by hash, so that a lookup costs one pass over the prompt."""

    def __init__(self) -> None:
        self._seen: dict[Key, set[bytes]] = {}

    def common(self, key: Key, segments: Sequence[object]) -> int:
        """Tokens of the longest leading run of segments that was stored before."""
        seen: set[bytes] = self._seen.get(key, set())
        tokens = 0
        for chain, size in _prefixes(segments):
            if chain not in seen:
                break
            tokens = size
        return tokens

    def store(self, key: Key, segments: Sequence[object]) -> None:
        self._seen.setdefault(key, set()).update(chain for chain, _ in _prefixes(segments))

    def clear(self) -> None:
        self._seen.clear()
