"""Why a reply ended, in the words of a wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.events import FinishReason


@final
class FinishReasons:
    """The words of one wire: those for each reason of ours, first the one that we write.

    A reason that has no word is written as an ordinary end; `writes` names exceptions.
    """

    def __init__(
        self,
        words: Mapping[FinishReason, Sequence[str]],
        writes: Mapping[FinishReason, str] | None = None,
    ) -> None:
        self.known: Mapping[str, FinishReason] = {word: reason for reason in words for word in words[reason]}
        self._written = {reason: found[0] for reason, found in words.items()} | dict(writes or {})
        self._knows_calls = "tool_calls" in words

    def read(self, word: str, default: FinishReason = "stop") -> FinishReason:
        return self.known.get(word, default)

    def write(self, reason: FinishReason, raw: str) -> str:
        """The wire's own word, if the reply ended with one; else the nearest."""
        known = self.known.get(raw)
        # A wire without a word for calls ends a reply with calls as it ends any other.
        is_usual = reason == "tool_calls" and not self._knows_calls and known in ("stop", "length")
        if known == reason or is_usual:
            return raw
        return self._written.get(reason, self._written["stop"])
