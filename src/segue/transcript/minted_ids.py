"""New ids for replies: unique for ever, legal in the grammar of a wire, and a function of a nonce."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, final

from segue.transcript.projection import IdProjection

if TYPE_CHECKING:
    from collections.abc import Collection

    from segue.transcript.rules import IdGrammar

_LENGTH = 24
_SHORTEST = 9
"""Fewer characters behind the prefix are a counter, and the next conversation counts the same again."""


@final
class MintedIds:
    """The ids of one reply."""

    def __init__(self, grammar: IdGrammar, nonce: str, used: Collection[str]) -> None:
        self._grammar = grammar
        self._legal = IdProjection(grammar)
        self._nonce = nonce
        self._used = set(used)
        self._ordinal = 0
        self._position = len(self._used)

    def reply_id(self, own: str, prefix: str) -> str:
        """The provider's own id of the reply if it will do; empty for none."""
        if own.startswith(prefix) and len(own) - len(prefix) >= _SHORTEST:
            return own
        return prefix + self._digest("reply", _LENGTH)

    def call_id(self, own: str, name: str) -> tuple[str, bool]:
        """The id of the next call, and whether it is the provider's own."""
        if own and own not in self._used and self._will_do(own):
            self._used.add(own)
            return own, True
        grammar = self._grammar
        while True:
            if grammar.form == "indexed":
                made = f"{grammar.prefix}{name}:{self._position + self._ordinal}"
            elif grammar.form == "alphanumeric":
                made = self._digest(f"call {self._ordinal}", grammar.max_length)
            else:
                length = min(_LENGTH, grammar.max_length - len(grammar.prefix))
                made = grammar.prefix + self._digest(f"call {self._ordinal}", length)
            self._ordinal += 1
            if made not in self._used:
                break
        self._used.add(made)
        return made, False

    def _will_do(self, own: str) -> bool:
        if self._grammar.form == "indexed":
            return True
        return len(own.removeprefix(self._grammar.prefix)) >= _SHORTEST and self._legal.accepts(own)

    def _digest(self, purpose: str, length: int) -> str:
        """Letters and digits."""
        source = f"{self._nonce}\x00{purpose}".encode("utf-8", "surrogatepass")
        return b64encode(blake2b(source, digest_size=24).digest(), b"AZ").decode()[:length]
