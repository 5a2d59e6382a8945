"""A ReAct reply, line by line.

A keyword counts at the start of a line only, bold or not. A final answer runs to the end of the reply. An observation
is ours to give: where a model goes on to make one up, nothing after it counts, as if it had stopped there.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

Section: TypeAlias = Literal["said", "thought", "action", "input", "final", "ignored"]
Problem: TypeAlias = Literal["bad_json", "not_an_object", "no_action_name", "cut_off", "nothing_to_do"]

_WORDS: dict[str, Section] = {
    "thought": "thought",
    "action input": "input",
    "action": "action",
    "final answer": "final",
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
_QUOTED = 500


@final
class Parsed(Struct, frozen=True, kw_only=True):
    """What a reply says. A final answer ends the turn, also beside an action."""

    thought: str = ""
    action: str | None = None
    action_input: dict[str, Any] | None = None
    final_answer: str | None = None
    problem: Problem | None = None
    """Why the action cannot be taken; `correction` asks the model for a better one."""
    raw_input: str = ""
    """The action input as it was written, without a fence around it."""

    @property
    def calls(self) -> bool:
        """Whether a tool is to be called."""
        return self.action is not None and self.final_answer is None and self.problem is None


def parse_react(text: str) -> Parsed:
    scanner = Scanner()
    scanner.feed(text)
    scanner.close()
    return scanner.parsed()


def correction(parsed: Parsed) -> str:
    """What to tell the model about a problem, its own words quoted."""
    quoted = parsed.raw_input if len(parsed.raw_input) <= _QUOTED else parsed.raw_input[:_QUOTED] + "…"
    match parsed.problem:
        case "bad_json":
            what = f"Error: Action Input must be valid JSON, and this is not:\n{quoted}\n"
        case "not_an_object":
            what = f"Error: Action Input must be a JSON object, and this is none:\n{quoted}\n"
        case "no_action_name":
            what = "Error: The line Action must name one tool.\n"
        case "cut_off":
            what = "Error: Your reply was cut off before its action was complete.\n"
        case _:
            what = "Error: Your reply had neither an action nor a final answer.\n"
    return what + "Please try again in this exact format:\n\n" + FORMAT


FORMAT = """\
Thought: [your reasoning about what to do]
Action: [name of one tool]
Action Input: [one JSON object with its parameters]

or, when no tool is needed any more:

Final Answer: [your response to the user]"""


class Scanner:
    """Tells the sections of a reply apart as the text arrives. Where it is cut makes no difference."""

    def __init__(self) -> None:
        self._told: dict[Section, list[str]] = {}
        self._section: Section = "said"
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
        """What is known to belong to which section by now."""
        return self._scan(self._held + text, last=False)

    def close(self) -> list[tuple[Section, str]]:
        return self._scan(self._held, last=True)

    def _scan(self, text: str, *, last: bool) -> list[tuple[Section, str]]:
        found: list[tuple[Section, str]] = []
        at_start = self._fresh
        self._held = ""
        while text and not self._over:
            if self._section == "final":
                self._tell(text, found)
                break
            if at_start:
                keyword = _KEYWORD.match(text)
                whole = last or (keyword is not None and keyword.end() < len(text))
                if keyword is not None and whole and self._enter(_WORDS[keyword["word"].lower()]):
                    text, at_start = text[keyword.end() :], False
                    continue
                if not whole and (keyword is not None or _may_be_keyword(text)):
                    self._held = text
                    break
            line, newline, text = text.partition("\n")
            self._tell(line + newline, found)
            at_start = bool(newline)
        self._fresh = at_start
        return found

    def _enter(self, section: Section) -> bool:
        """Begin a section; no where the word is no keyword here."""
        acted = "action" in self._told or "input" in self._told
        if section == "ignored":
            self._over = acted
            return acted
        if acted and (section in ("thought", "action") or section in self._told):
            section = "ignored"
        self._told.setdefault(section, [])
        self._section, self._begun, self._blank = section, False, ""
        return True

    def _tell(self, text: str, found: list[tuple[Section, str]]) -> None:
        said = (self._blank + text).rstrip()
        self._blank = (self._blank + text)[len(said) :]
        if not self._begun:
            said = said.lstrip()
        if not said:
            self._blank = self._blank if self._begun else ""
            return
        pieces = self._told.setdefault(self._section, [])
        if not self._begun and pieces:
            said = "\n" + said
        self._begun = True
        pieces.append(said)
        found.append((self._section, said))

    def parsed(self, *, cut_off: bool = False) -> Parsed:
        """What was understood. `cut_off`: the reply would have gone on."""
        thought = "".join(self._told.get("thought", ()))
        action, raw = self._action(), self._input()
        final_answer = "".join(self._told["final"]) if "final" in self._told else None
        if final_answer is None and action is None:
            final_answer = "".join(self._told.get("said", ())) or None
            unfinished: Problem = "cut_off" if cut_off else "nothing_to_do"
            problem = unfinished if final_answer is None and thought else None
            return Parsed(
                thought=thought,
                final_answer=None if problem else final_answer or "",
                problem=problem,
            )
        arguments, problem = _arguments(raw, cut_off=cut_off) if action is not None else (None, None)
        if action == "":
            problem = "no_action_name"
        return Parsed(
            thought=thought,
            action=action,
            action_input=arguments,
            final_answer=final_answer,
            problem=None if final_answer is not None else problem,
            raw_input=raw,
        )

    def _action(self) -> str | None:
        if "action" not in self._told and "input" not in self._told:
            return None
        lines = "".join(self._told.get("action", ())).splitlines()
        return lines[0].strip(" \t`*\"'") if lines else ""

    def _input(self) -> str:
        raw = "".join(self._told.get("input", ())).strip()
        made_up = raw.find("Observation:")
        if made_up >= 0 and not _is_json(raw):
            raw = raw[:made_up].rstrip()  # it went on without even a new line
        fenced = _FENCED.fullmatch(raw)
        return fenced["inside"] if fenced is not None else raw


def _may_be_keyword(start: str) -> bool:
    """Whether the start of a line can still become a keyword."""
    if "\n" in start:
        return False
    words = start.lstrip(" \t>#").lstrip("*_").lower()
    return any(
        word.startswith(words) or (words.startswith(word) and not words[len(word) :].strip(" \t*_"))
        for word in _WORDS
    )


def _arguments(raw: str, *, cut_off: bool) -> tuple[dict[str, Any] | None, Problem | None]:
    if not raw:
        return (None, "cut_off") if cut_off else ({}, None)
    if not _is_json(raw):
        return None, "cut_off" if cut_off else "bad_json"
    value = msgspec.json.decode(raw)
    return (value, None) if isinstance(value, dict) else (None, "not_an_object")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True
