"""Who made a sealed payload, where its form shows it.

Histories come in with seals in the wrong slot: a gateway wrote one vendor's payload as another's signature. Such a
seal belongs to no provider that can be named here, so nobody gets it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Literal, TypeAlias

from segue.conversation.blocks import Origin

SealMaker: TypeAlias = Literal["openai", "google", "anthropic"]

_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
# GEM-22: the words that stand for a lost thought signature, as they are and in base64.
_STAND_INS = frozenset({*_WORDS, *(b64encode(word.encode()).decode().rstrip("=") for word in _WORDS)})
_HEAD = 24
"""Letters of base64 that hold the bytes which are looked at."""


def maker_of(payload: str) -> SealMaker | None:
    """The maker of a payload; None if its form could be anybody's."""
    if payload.startswith("gAAAA"):  # a Fernet token: its version and the first bytes of the time
        return "openai"
    if payload[:4] in ("skip", "cont", "c2tp", "Y29u") and payload.rstrip("=") in _STAND_INS:
        return "google"
    if payload[:1] != "E" or len(payload) < _HEAD:
        return None
    return _maker_of_message(payload)


def _maker_of_message(payload: str) -> SealMaker | None:
    """Both are protocol buffers: field 2, and in it field 1, which is all there is for one and a header for the other."""
    try:
        head = b64decode(payload[:_HEAD].translate(_PLAIN), validate=True)
    except ValueError:
        return None
    whole = len(payload.rstrip("=")) * 3 // 4
    length, at = _length(head, 1)
    end = at + length
    if head[at] != _FIELD_1 or not whole - _LONGEST_TAIL <= end <= whole:
        return None
    length, at = _length(head, at + 1)
    if at + length == whole:
        return "google"
    return "anthropic" if at + length < end else None


_PLAIN = str.maketrans("-_", "+/")
_FIELD_1 = 0x0A
_LONGEST_TAIL = 2
"""Bytes of one more field, a small number."""


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A number of varying length, and where it ends."""
    value = shift = 0
    while at < len(data) - 2:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at


def seal_origin(payload: str, slot: Origin, maker: SealMaker) -> Origin:
    """Who made a seal that was found in a slot for those of `maker`: the slot's origin unless the seal's form denies it."""
    found = maker_of(payload)
    return slot if found is None or found == maker else Origin(provider=found)
