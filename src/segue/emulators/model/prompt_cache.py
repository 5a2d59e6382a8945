"""Simulated prompt caching: what of the start of a prompt its provider has kept from earlier requests, in tokens.

Each provider keeps prompts in its own way (prompt_cache.toml): in blocks of tokens, by whole parts, or only what a request marks; for
some minutes, or as long as this process. Four bytes of JSON are one token here.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Key: TypeAlias = tuple[str, str, str]
"""Provider, account, model: nothing is shared across any of them."""
_BYTES = 4
"""Of JSON, for one token."""
_STEPS = 8
"""In a block."""


class Mark(Struct, frozen=True):
    """Stands in a prompt: what comes before it shall be kept for so many seconds."""

    seconds: int


class Seam(Struct, frozen=True):
    """Stands in a prompt: what comes behind it is kept only together with this, which is no part of the prompt itself."""

    value: object


class CacheRules(Struct, frozen=True):
    """How one provider keeps prompts. The words are those of prompt_cache.toml."""

    provider: str
    models: tuple[str, ...] = ()
    minimum: int = 0
    block: int = 0
    seconds: int = 0
    lookback: int = 0
    confidence: str = "L"
    source: str = ""


class _Rules(Struct, frozen=True):
    cache: tuple[CacheRules, ...]


@lru_cache(maxsize=1)
def _all_rules() -> tuple[CacheRules, ...]:
    text = files(__package__).joinpath("prompt_cache.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Rules).cache


@lru_cache(maxsize=1024)
def rules_for(provider: str, model: str) -> CacheRules:
    for rules in _all_rules():
        if rules.provider == provider and (
            not rules.models or any(fnmatchcase(model, pattern) for pattern in rules.models)
        ):
            return rules
    return CacheRules(provider)


def size(segments: Sequence[object]) -> int:
    """Tokens of a prompt in the measure of the cache."""
    read = [segment for segment in segments if not isinstance(segment, Mark | Seam)]
    return -(-sum(len(msgspec.json.encode(segment)) for segment in read) // _BYTES)


class PromptCache:
    """Remembers the starts of accepted prompts by hash, so that a lookup costs one pass over the prompt."""

    def __init__(self) -> None:
        self._ends: dict[Key, dict[bytes, float]] = {}
        """Of each start, by its hash: until when it is kept."""
        self._lives: dict[Key, dict[bytes, int]] = {}
        """And for how long after each use."""

    def common(self, key: Key, segments: Sequence[object], now: float = 0.0) -> int:
        """Tokens that are read from the cache. What is read is kept for as long again."""
        rules = rules_for(key[0], key[2])
        ends, lives = self._ends.get(key, {}), self._lives.get(key, {})
        found, tokens, seen = list[bytes](), 0, list[bytes]()
        for name, read in _read_at(segments, rules):
            if ends.get(name, -1.0) >= now:
                tokens = read
                found = [*seen, name]
            seen.append(name)
        for name in found:
            if ends.get(name, -1.0) >= now:
                ends[name] = now + lives[name] if lives[name] else float("inf")
        return tokens if tokens >= rules.minimum else 0

    def store(self, key: Key, segments: Sequence[object], now: float = 0.0, minimum: int = 0) -> None:
        """`minimum`: tokens, where it depends on the model."""
        rules = rules_for(key[0], key[2])
        ends, lives = self._ends.setdefault(key, {}), self._lives.setdefault(key, {})
        for name, tokens, seconds in _kept_at(segments, rules):
            if tokens >= max(rules.minimum, minimum):
                lives[name] = max(seconds, lives.get(name, 0)) if seconds else 0
                ends[name] = now + lives[name] if lives[name] else float("inf")

    def clear(self) -> None:
        self._ends.clear()
        self._lives.clear()


def _kept_at(segments: Sequence[object], rules: CacheRules) -> Iterator[tuple[bytes, int, int]]:
    """Each start that a request leaves behind: its hash, its tokens, and the seconds that it is kept."""
    if rules.lookback:
        for part, name, tokens in _whole_parts(segments):
            if isinstance(part, Mark):
                yield name, tokens, part.seconds
    else:
        for name, tokens in _starts(segments, rules):
            yield name, tokens, rules.seconds


def _read_at(segments: Sequence[object], rules: CacheRules) -> Iterator[tuple[bytes, int]]:
    """Each start that is looked for, shortest first."""
    if not rules.lookback:
        yield from _starts(segments, rules)
        return
    starts, marks = list[tuple[bytes, int]](), list[int]()
    for part, name, tokens in _whole_parts(segments):
        if isinstance(part, Mark):
            marks.append(len(starts) - 1)
        elif not isinstance(part, Seam):
            starts.append((name, tokens))
    looked_at = {place for mark in marks for place in range(mark, mark - rules.lookback, -1)}
    yield from (start for place, start in enumerate(starts) if place in looked_at)


def _starts(segments: Sequence[object], rules: CacheRules) -> Iterator[tuple[bytes, int]]:
    """In steps within blocks, for what is read is cut to whole ones when it is counted in the provider's own measure. A provider that
    names no blocks keeps whole parts."""
    if not rules.block:
        yield from ((name, tokens) for _, name, tokens in _whole_parts(segments))
        return
    data = b"\n".join(msgspec.json.encode(segment) for segment in segments)
    step, chain = rules.block * _BYTES // _STEPS, b""
    for number in range(len(data) // step):
        chain = hashlib.blake2b(chain + data[number * step : (number + 1) * step], digest_size=16).digest()
        yield chain, (number + 1) * rules.block // _STEPS


def plain(value: Any, *, media: str, seal: str) -> Any:
    """A prompt without the seals of its thoughts, and with media by their digest: they are not read letter by letter."""
    if isinstance(value, list):
        return [plain(item, media=media, seal=seal) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: digest(item) if key == media else plain(item, media=media, seal=seal)
        for key, item in value.items()
        if key != seal
    }


def _whole_parts(segments: Sequence[object]) -> Iterator[tuple[object, bytes, int]]:
    """Each part with the hash and the tokens of all up to it."""
    chain, length = b"", 0
    for segment in segments:
        if not isinstance(segment, Mark):
            is_seam = isinstance(segment, Seam)
            data = msgspec.json.encode(segment.value if isinstance(segment, Seam) else segment)
            chain = hashlib.sha256(
                chain + (b"seam" if is_seam else b"") + hashlib.sha256(data).digest()
            ).digest()
            length += 0 if is_seam else len(data)
        yield segment, chain, -(-length // _BYTES)
