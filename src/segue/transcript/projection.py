"""Canonical ids and tool names, projected into a target's grammar.

Both maps are injective for every input. Each call gets its target id from its own id and how often that id occurred
before, and keeps it when the conversation grows, because earlier calls always choose first.

For example, the second call of a chat is `c1` to us, `toolu_c1` to Anthropic, `functions.read:1` to Kimi and `c00000001` to Mistral,
whose ids have nine letters and digits. To cut and replace letters instead would make one id of two (`a|b` and `a/b`), and a provider
would pair a result with the wrong call.

Replies for clients get new ids: unique for ever, legal in the grammar of their wire, and a function of a nonce.
"""

from __future__ import annotations

import string
from base64 import b64encode
from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, final

from segue.conversation.ids import MINTED
from segue.conversation.json_safe import encodable

if TYPE_CHECKING:
    from collections.abc import Collection

    from segue.transcript.rules import IdGrammar, NameGrammar

UNNAMED = "unknown_tool"
_SHORT = 23
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WORD = frozenset(f"{string.ascii_letters}{string.digits}_")
_letters = cache(frozenset[str])


class IdProjection:
    """Gives out the ids of one transcript, in order of appearance."""

    __slots__ = ("_form", "_grammar", "_index", "_own", "_prefix", "_seen", "_short", "_simple", "_used")

    def __init__(self, grammar: IdGrammar) -> None:
        self._grammar = grammar
        self._form, self._prefix = grammar.form, grammar.prefix
        self._own = _letters(grammar.characters)
        simple = grammar.form == "prefixed" and self._own >= _WORD
        self._simple = grammar.max_length if simple else 0
        """Up to this length every identifier is accepted."""
        self._short = min(_SHORT, grammar.max_length - len(grammar.prefix))
        self._used: set[str] = set()
        self._seen: dict[str, int] = {}
        self._index = 0

    def fork(self) -> IdProjection:
        """The same state, to continue from independently."""
        twin = IdProjection.__new__(IdProjection)
        twin._grammar, twin._form, twin._prefix = self._grammar, self._form, self._prefix
        twin._own, twin._simple, twin._short = self._own, self._simple, self._short
        twin._used = self._used.copy()
        twin._seen = self._seen.copy()
        twin._index = self._index
        return twin

    def project(self, call_id: str, name: str, native_id: str) -> str:
        """The id of the next call. `native_id`: what this very target once called it, or empty."""
        if self._form == "indexed":
            # The target counts the calls it sees, so the number is the position, also for its own ids.
            self._index += 1
            return f"{self._prefix}{name}:{self._index - 1}"
        used = self._used
        if (
            native_id
            and native_id not in used
            and (
                # An identifier has letters, digits and underscores alone; to look at each costs several times as much.
                (native_id.isidentifier() and native_id.isascii() and len(native_id) <= self._simple)
                or self.accepts(native_id)
            )
        ):
            used.add(native_id)
            return native_id
        seen = self._seen
        occurrence = seen.get(call_id, 0)
        seen[call_id] = occurrence + 1
        if occurrence:
            projected = ""
        elif (
            self._form == "prefixed"
            and call_id.isalnum()
            and call_id.isascii()
            and len(call_id) <= self._short
        ):
            projected = self._prefix + call_id
        else:
            projected = self._numbered(call_id)
        if not projected or projected in used:
            projected = self._free_digest(call_id, occurrence)
        used.add(projected)
        return projected

    def _numbered(self, call_id: str) -> str:
        """A minted id in nine characters: its number, filled up, is as distinct as the number itself. Else empty."""
        number = call_id[1:]
        if (
            self._form == "alphanumeric"
            and len(call_id) <= self._short
            and call_id.isascii()
            and call_id[:1] == MINTED
            and number.isdigit()
            and (number[0] != "0" or number == "0")
        ):
            return MINTED + number.zfill(self._grammar.max_length - 1)
        return ""

    def _free_digest(self, call_id: str, occurrence: int) -> str:
        projected = self._digest(call_id if not occurrence else f"{call_id}\x00{occurrence}")
        attempt = 0
        while projected in self._used:
            attempt += 1
            projected = self._digest(f"{call_id}\x00{occurrence}\x00{attempt}")
        return projected

    def _digest(self, source: str) -> str:
        grammar = self._grammar
        data = source.encode("utf-8", "surrogatepass")
        if grammar.form == "prefixed":
            return (grammar.prefix + blake2b(data, digest_size=12).hexdigest())[: grammar.max_length]
        number = int.from_bytes(blake2b(data, digest_size=16).digest(), "big")
        letters = []
        for _ in range(grammar.max_length):
            number, digit = divmod(number, 62)
            letters.append(_BASE62[digit])
        return "".join(letters)

    def accepts(self, native_id: str) -> bool:
        """Whether an id that the target itself issued may be given back to it."""
        grammar = self._grammar
        length = len(native_id)
        if length > grammar.max_length or not self._own.issuperset(native_id):
            return False
        return grammar.form != "alphanumeric" or length == grammar.max_length


@lru_cache(maxsize=128)
def offered_names(grammar: NameGrammar, offered: tuple[str, ...]) -> NameProjection:
    """A projection in which these tools have chosen, to be forked: most requests of a conversation offer the same."""
    return NameProjection(grammar, offered)


class NameProjection:
    """Projects tool names; offered tools choose first, then the calls of the history in order."""

    __slots__ = ("_first", "_grammar", "_rest", "_shared", "_used", "names")

    def __init__(self, grammar: NameGrammar, offered: tuple[str, ...] = ()) -> None:
        self._grammar = grammar
        self._first = _letters(grammar.first)
        self._rest = _letters(grammar.rest)
        self._used: set[str] = set()
        self.names: dict[str, str] = {}
        self._shared = False
        """Whether a fork has the same names, so that they must not change."""
        # Tools whose name is legal keep it, so that a respelled one can never take it from them.
        for name in sorted(offered, key=lambda name: not self.accepts(name)):
            self.project(name)

    def fork(self) -> NameProjection:
        """The same state, to continue from independently. Nothing is copied until a new name comes, which is seldom."""
        twin = NameProjection.__new__(NameProjection)
        twin._grammar, twin._first, twin._rest = self._grammar, self._first, self._rest
        twin._used, twin.names = self._used, self.names
        self._shared = twin._shared = True
        return twin

    def project(self, name: str) -> str:
        known = self.names.get(name)
        if known is not None:
            return known
        projected = name if self.accepts(name) and name not in self._used else self._legal_name(name)
        if self._shared:
            self._used, self.names, self._shared = self._used.copy(), self.names.copy(), False
        self._used.add(projected)
        self.names[name] = projected
        return projected

    def keeps(self, name: str) -> bool:
        """Whether a name would be sent as it is."""
        known = self.names.get(name)
        return known == name if known is not None else self.accepts(name) and name not in self._used

    def accepts(self, name: str) -> bool:
        return (
            0 < len(name) <= self._grammar.max_length
            and name[0] in self._first
            and self._rest.issuperset(name)
        )

    def _legal_name(self, name: str) -> str:
        """The readable part of the name, and a digest of all of it."""
        digest_length, attempt = 8, 0
        readable = "".join(letter if letter in self._rest else "_" for letter in encodable(name)) or UNNAMED
        if readable[0] not in self._first:
            readable = f"_{readable}" if "_" in self._first else f"t{readable}"
        if not name and readable not in self._used:
            return readable
        while True:
            source = name if not attempt else f"{name}\x00{attempt}"
            digest = blake2b(
                source.encode("utf-8", "surrogatepass"), digest_size=digest_length // 2
            ).hexdigest()
            projected = f"{readable[: self._grammar.max_length - digest_length - 1]}_{digest}"
            if projected not in self._used:
                return projected
            attempt += 1


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
