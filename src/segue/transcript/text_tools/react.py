"""ReAct: a thought, then an action with its input, or the final answer, each in a line with a keyword.

A keyword counts at the start of a line only, bold or not. A final answer runs to the end of the reply. Observations
are ours to give: if a model makes one up, nothing after it counts, as if it had stopped there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.transcript.blocks.value_text import json_of
from segue.transcript.text_tools.form import Form, ParsedReply, ParseProblem, Section
from segue.transcript.text_tools.json_calls import list_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.conversation.tools import ToolSpec
    from segue.transcript.steps import AnsweredCall, Completion
    from segue.transcript.text_tools.form import Offer

MAX_CORRECTIONS = 3
"""How often in one turn a model may be asked to write its action properly."""
_QUOTED = 500
FORMAT = """\
Thought: [your reasoning about what to do]
Action: [name of one tool]
Action Input: [one JSON object with its parameters]

or, when no tool is needed any more:

Final Answer: [your response to the user]"""
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

_PROBLEMS: dict[ParseProblem, str] = {
    "bad_json": "Action Input must be valid JSON, and this is not:\n{quoted}",
    "not_an_object": "Action Input must be a JSON object, and this is none:\n{quoted}",
    "no_action_name": "The line Action must name one tool.",
    "cut_off": "Your reply was cut off before its action was complete.",
    "nothing_to_do": "Your reply had neither an action nor a final answer.",
}


def correction(parsed: ParsedReply) -> str:
    """A note that asks the model to correct its reply and quotes it."""
    quoted = parsed.raw_input if len(parsed.raw_input) <= _QUOTED else parsed.raw_input[:_QUOTED] + "…"
    what = _PROBLEMS[parsed.problem or "nothing_to_do"].format(quoted=quoted)
    return f"Error: {what}\nPlease try again in this exact format:\n\n{FORMAT}"


def format_tools(tools: Sequence[ToolSpec]) -> str:
    """Instructions that name every tool, what it does and what it takes."""
    listed = "\n".join(
        f"- {tool.name}: {tool.description or 'No description'}\n  Parameters: {json_of(tool.parameters or {})}"
        for tool in tools
    )
    return f"""\
You have access to the following tools:

{listed}

To use a tool, respond in this exact format, and stop after it:

{FORMAT}

After each action you will see its result:

Observation: [result of the tool]

Never write an observation yourself. Use one tool at a time; you may use as many, one after another, as you need."""


def _instructions(offer: Offer) -> str:
    paragraphs = [format_tools(offer.tools)]
    if offer.must_call:
        tool = f"the tool {offer.named}" if offer.named else "a tool"
        paragraphs.append(f"You must use {tool} before you give a final answer.")
    if offer.answer is not None:
        paragraphs.append(f"The final answer must be JSON that follows this schema: {json_of(offer.answer)}")
    return "\n\n".join(paragraphs)


def _short_instructions(offer: Offer) -> str:
    ending = (
        "\n\nOnce you know enough, or when no tool helps, end with\n"
        "Thought: I can answer now\nFinal Answer: the answer in plain words"
    )
    return (
        f"# Tools\n\nYou can use these tools:\n{list_tools(offer.tools)}\n\n"
        "Use a tool whenever one can do or find out what the user asks for. To use one, write\n"
        "Thought: what has to be done next\nAction: the name of the tool\n"
        "Action Input: its arguments as a JSON object\n"
        f"and the result is told to you as an Observation.{'' if offer.must_call else ending}"
    )


def _write_reply(thoughts: Sequence[str], texts: Sequence[str], calls: Sequence[AnsweredCall]) -> str:
    if calls:
        actions = [f"Action: {call.name}\nAction Input: {call.arguments}" for call in calls]
        return _lines([_labelled("Thought", (*thoughts, *texts)), *actions])
    # Labelled as an answer, an action that could not be read would teach the wrong format.
    malformed = any(text.startswith("Action: ") and "\nAction Input: " in text for text in texts)
    return _lines(
        [_labelled("Thought", thoughts), *(texts if malformed else [_labelled("Final Answer", texts)])]
    )


def _labelled(label: str, texts: Iterable[str]) -> str:
    text = _lines(texts)
    return f"{label}: {text}" if text else ""


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def format_observation(result: Any) -> str:
    """A tool's result as the model reads it."""
    return f"Observation: {json_of(result)}"


def _write_observations(calls: Sequence[AnsweredCall]) -> str:
    return "\n".join(format_observation(_result(call.completion)) for call in calls)


def _result(completion: Completion) -> Any:
    """What a tool answered in JSON stays JSON; any other text becomes a JSON string."""
    text = completion.text
    if completion.is_error or completion.reason is not None:
        return {"error": text}
    if text.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except _NOT_JSON:
            pass
    return text


def _write_plain_observations(calls: Sequence[AnsweredCall]) -> str:
    return "\n".join(f"Observation: {call.completion.text}" for call in calls)


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


REACT = Form(
    instructions=_instructions,
    write_reply=_write_reply,
    write_results=_write_observations,
    new_scanner=ReActScanner,
    writes_thoughts=True,
    single_calls=True,
    stop=("\nObservation:",),
)
SHORT_REACT = Form(
    instructions=_short_instructions,
    write_reply=_write_reply,
    write_results=_write_plain_observations,
    new_scanner=ReActScanner,
    writes_thoughts=True,
)
"""For replies that a grammar holds to the format: fewer words explain it."""
