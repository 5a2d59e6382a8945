"""Divides a ReAct reply into its sections, line by line.

A keyword counts at the start of a line only, bold or not. A final answer runs to the end of the reply. Observations
are ours to give: if a model makes one up, nothing after it counts, as if it had stopped there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.transcript.text_tools.form import ParsedReply, ParseProblem, Section

if TYPE_CHECKING:
    from segue.transcript.text_tools.form import Offer

_NOT_JSON = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)
_KEYWORDS: dict[str, Section] = {
    "thought": "thought",
    "action input": "input",
    "action": "action",
    "final answer": "answer",
    "observation": "ignored",
}
_KEYWORD = re.compile(
    r"[ \t>#]*(?P<bold>[*_]+)?(?P<word>thought|action input|action|final answer|observation)"
    r"[ \t]*[*_]*[ \t]*:(?(bold)[*_]*)",
    re.IGNORECASE,
)
_FENCED = re.compile(
    r"\s*(?P<fence>`{1,3})(?:[A-Za-z][\w-]*(?=[\s{\[]))?\s*(?P<inside>.*?)\s*(?:(?P=fence)\s*)?", re.DOTALL
)


class ReActScanner:
    """Divides a reply into sections as the text arrives."""

    def __init__(self, offer: Offer | None = None) -> None:
        del offer  # an unknown name becomes a call too: its result lists the tools for the model
        self._sections: dict[Section, list[str]] = {}
        self._section: Section = "text"
        self._begun = False
        """Whether the present section has more than white space."""
        self._blank = ""
        """White space that belongs to the section only if more of it follows."""
        self._held = ""
        """The start of a line that may yet turn out to be a keyword."""
        self._fresh = True
        """Whether the next character begins a line."""
        self._over = False

    def feed(self, text: str) -> list[tuple[Section, str]]:
        return self._scan(self._held + text, last=False)

    def close(self) -> list[tuple[Section, str]]:
        return self._scan(self._held, last=True)

    def _scan(self, text: str, *, last: bool) -> list[tuple[Section, str]]:
        found: list[tuple[Section, str]] = []
        at_start = self._fresh
        self._held = ""
        while text and not self._over:
            if self._section == "answer":
                self._add(text, found)
                break
            if at_start:
                keyword = _KEYWORD.match(text)
                whole = last or (keyword is not None and keyword.end() < len(text))
                if keyword is not None and whole and self._enter(_KEYWORDS[keyword["word"].lower()]):
                    text, at_start = text[keyword.end() :], False
                    continue
                if not whole and (keyword is not None or _may_be_keyword(text)):
                    self._held = text
                    break
            line, newline, text = text.partition("\n")
            self._add(line + newline, found)
            at_start = bool(newline)
        self._fresh = at_start
        return found

    def _enter(self, section: Section) -> bool:
        """Begin a section; False if the word is no keyword here."""
        acted = "action" in self._sections or "input" in self._sections
        if section == "ignored":
            self._over = acted
            return acted
        if acted and (section in ("thought", "action") or section in self._sections):
            section = "ignored"
        self._sections.setdefault(section, [])
        self._section, self._begun, self._blank = section, False, ""
        return True

    def _add(self, text: str, found: list[tuple[Section, str]]) -> None:
        piece = (self._blank + text).rstrip()
        self._blank = (self._blank + text)[len(piece) :]
        if not self._begun:
            piece = piece.lstrip()
        if not piece:
            self._blank = self._blank if self._begun else ""
            return
        pieces = self._sections.setdefault(self._section, [])
        if not self._begun and pieces:
            piece = "\n" + piece
        self._begun = True
        pieces.append(piece)
        found.append((self._section, piece))

    def parsed(self, *, cut_off: bool = False) -> ParsedReply:
        thought = "".join(self._sections.get("thought", ()))
        action, raw = self._action(), self._input()
        final_answer = "".join(self._sections["answer"]) if "answer" in self._sections else None
        if final_answer is None and action is None:
            final_answer = "".join(self._sections.get("text", ())) or None
            unfinished: ParseProblem = "cut_off" if cut_off else "nothing_to_do"
            problem = unfinished if final_answer is None and thought else None
            return ParsedReply(
                thought=thought,
                final_answer=None if problem else final_answer or "",
                problem=problem,
            )
        arguments, problem = _arguments(raw, cut_off=cut_off) if action is not None else (None, None)
        if action == "":
            problem = "no_action_name"
        return ParsedReply(
            thought=thought,
            action=action,
            action_input=arguments,
            final_answer=final_answer,
            problem=None if final_answer is not None else problem,
            raw_input=raw,
        )

    def _action(self) -> str | None:
        if "action" not in self._sections and "input" not in self._sections:
            return None
        lines = "".join(self._sections.get("action", ())).splitlines()
        return lines[0].strip(" \t`*\"'") if lines else ""

    def _input(self) -> str:
        raw = "".join(self._sections.get("input", ())).strip()
        made_up = raw.find("Observation:")
        if made_up >= 0:
            try:
                msgspec.json.decode(raw)
            except _NOT_JSON:
                raw = raw[:made_up].rstrip()  # the made-up result follows without a new line
        fenced = _FENCED.fullmatch(raw)
        return fenced["inside"] if fenced is not None else raw

    def action_text(self) -> str:
        return f"Action: {self._action()}\nAction Input: {self._input()}"


def _may_be_keyword(start: str) -> bool:
    """Whether the start of a line can still become a keyword."""
    if "\n" in start:
        return False
    words = start.lstrip(" \t>#").lstrip("*_").lower()
    return any(
        word.startswith(words) or (words.startswith(word) and not words[len(word) :].strip(" \t*_"))
        for word in _KEYWORDS
    )


def _arguments(raw: str, *, cut_off: bool) -> tuple[dict[str, Any] | None, ParseProblem | None]:
    if not raw:
        return (None, "cut_off") if cut_off else ({}, None)
    try:
        value = msgspec.json.decode(raw)
    except _NOT_JSON:
        return None, "cut_off" if cut_off else "bad_json"
    return (value, None) if isinstance(value, dict) else (None, "not_an_object")
