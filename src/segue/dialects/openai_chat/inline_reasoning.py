"""Thoughts that come inside the text: what stands in `<think>` tags at the very start of an answer."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"


class InlineThoughts:
    """Separates thoughts from the answer while both arrive in pieces, wherever a tag is cut."""

    __slots__ = ("_held", "_place")

    def __init__(self) -> None:
        self._place: Literal["start", "inside", "gap", "answer"] = "start"
        self._held = ""
        """What may still become a tag."""

    @property
    def over(self) -> bool:
        """Whether all that comes is answer."""
        return self._place == "answer"

    def feed(self, text: str) -> tuple[str, str]:
        """The thought and the answer in the next piece."""
        if self._place == "answer":
            return "", text
        text, self._held = self._held + text, ""
        if self._place == "start":
            bare = text.lstrip()
            if len(bare) < len(_OPEN) and _OPEN.startswith(bare):
                self._held = text
                return "", ""
            if not bare.startswith(_OPEN):
                self._place = "answer"
                return "", text
            self._place, text = "inside", bare[len(_OPEN) :]
        thought = ""
        if self._place == "inside":
            thought, tag, text = text.partition(_CLOSE)
            if not tag:
                self._held = _beginning_of_tag(thought)
                return thought[: len(thought) - len(self._held)], ""
            self._place = "gap"
        answer = text.lstrip("\n")
        if answer:
            self._place = "answer"
        return thought, answer

    def close(self) -> tuple[str, str]:
        """Nothing more comes: what was held back is what it looked like."""
        held, self._held = self._held, ""
        return (held, "") if self._place == "inside" else ("", held)


def _beginning_of_tag(text: str) -> str:
    """The longest end of a text with which the closing tag may begin."""
    longest = min(len(text), len(_CLOSE) - 1)
    return next((text[-size:] for size in range(longest, 0, -1) if _CLOSE.startswith(text[-size:])), "")
