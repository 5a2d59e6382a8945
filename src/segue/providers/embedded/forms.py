"""Two forms in which a model without calls of its own can call tools: a bare JSON object, or ReAct's lines.

A form says what the model is told, how past calls and results are spelt in plain messages, which grammar holds its
reply, and reads the call back out of that reply. Any chat template will do: it never sees a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.providers.embedded.grammar import Grammar, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

FormName: TypeAlias = Literal["json", "react"]
Delta: TypeAlias = dict[str, Any]
"""A portion of a reply as the wire has it."""

_ENCODER = msgspec.json.Encoder()
_ANYTHING = "[^\\x00]*"


@final
class Offer(Struct, frozen=True, kw_only=True):
    """The tools of one request, as the wire tells them."""

    tools: tuple[Mapping[str, Any], ...] = ()
    must_call: bool = False
    answer: Mapping[str, Any] | None = None
    """JSON Schema of an answer in words, where one is asked for."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool["name"] for tool in self.tools)


class Reader(Protocol):
    """Reads a reply while it arrives. What may still become a call is held back until that is settled."""

    def feed(self, text: str) -> list[Delta]: ...

    def close(self) -> list[Delta]: ...


class Form(Protocol):
    """One way of calling tools in plain text."""

    def instructions(self, offer: Offer) -> str: ...

    def said(self, text: str, calls: Sequence[tuple[str, str]]) -> str:
        """A message of the model's: what it said, and the names and arguments of its calls."""
        ...

    def results(self, results: Sequence[tuple[str, str]]) -> str:
        """What tools answered, by name, as the user would say it."""
        ...

    def grammar(self, offer: Offer) -> str: ...

    def reader(self, offer: Offer, call_id: str) -> Reader: ...


@final
class JsonForm:
    """A reply is either words or one JSON object: `{"name": …, "arguments": {…}}`. Its first character tells which."""

    def instructions(self, offer: Offer) -> str:
        # Found by trial with a model of 1.5 billion parameters: an example helps it more than any exhortation.
        otherwise = "" if offer.must_call else " When none of them fits, reply in words."
        return (
            f"# Functions\n\n{_listed(offer)}\n\n"
            "When one of these functions can serve the request, you call it: your whole reply is then one JSON object,\n"
            '{"name": "<function>", "arguments": {<its arguments>}}\n'
            "For example, with a function lookup(word), you would reply to \"What does 'arid' mean?\" with\n"
            '{"name": "lookup", "arguments": {"word": "arid"}}\n'
            f"Never explain how to call a function.{otherwise}"
        )

    def said(self, text: str, calls: Sequence[tuple[str, str]]) -> str:
        spelt = [f'{{"name": {_text(name)}, "arguments": {arguments}}}' for name, arguments in calls]
        return "\n".join(filter(None, (text, *spelt)))

    def results(self, results: Sequence[tuple[str, str]]) -> str:
        told = "\n".join(f"The function {name} returned: {output}" for name, output in results)
        return f"{told}\n\nNow answer my question with that in plain words, or call another function if you must."

    def grammar(self, offer: Offer) -> str:
        grammar = Grammar()
        calls = [f'{_opening(tool["name"])} {grammar.value(tool["parameters"])} "}}"' for tool in offer.tools]
        call = grammar.rule(" | ".join(calls))
        # Coding models like to fence their JSON: better a call in a fence than words about a call.
        call = grammar.rule(rf'{call} | "```json\n" {call} "\n```"')
        if offer.must_call:
            return grammar.text(call)
        if offer.answer is not None:
            return grammar.text(f"{call} | {grammar.value(offer.answer)}")
        words = rf'[^{{`<\[ \t\r\n] {_ANYTHING} | "```" [^j] {_ANYTHING}'
        return grammar.text(f"{call} | {words}")

    def reader(self, offer: Offer, call_id: str) -> Reader:
        return _JsonReader(offer, call_id)


def _opening(name: str) -> str:
    return quoted(f'{{"name": {_text(name)}, "arguments": ')


_FENCE = "```json\n"


class _JsonReader:
    def __init__(self, offer: Offer, call_id: str) -> None:
        self._names = offer.names
        self._id = call_id
        self._held = ""
        self._speaks = False

    def feed(self, text: str) -> list[Delta]:
        if self._speaks:
            return [{"content": text}]
        self._held += text
        begun = self._held.lstrip()
        if not begun or begun.startswith("{") or _FENCE.startswith(begun[: len(_FENCE)]):
            return []
        self._speaks = True
        return [{"content": self._held}]

    def close(self) -> list[Delta]:
        if not self._held or self._speaks:
            return []
        call = read_call(self._held.strip().removeprefix(_FENCE).removesuffix("\n```"), self._names)
        # What was cut off before its end is no call, and calls are never told by halves.
        return [_call(self._id, *call) if call else {"content": self._held}]


def read_call(text: str, names: frozenset[str]) -> tuple[str, str] | None:
    """Name and arguments of the call that a text is, if it is one."""
    try:
        call = msgspec.json.decode(text, type=_Call)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return (call.name, bytes(call.arguments).decode()) if call.name in names else None


class _Call(Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


@final
class ReactForm:
    """A thought, then an action with its input, or the final answer: each in a line with a title."""

    def instructions(self, offer: Offer) -> str:
        ending = (
            ""
            if offer.must_call
            else (
                "\n\nOnce you know enough, or when no tool helps, end with\n"
                "Thought: I can answer now\nFinal Answer: the answer in plain words"
            )
        )
        return (
            f"# Tools\n\nYou can use these tools:\n{_listed(offer)}\n\n"
            "Use a tool whenever one can do or find out what the user asks for. To use one, write\n"
            "Thought: what has to be done next\nAction: the name of the tool\n"
            "Action Input: its arguments as a JSON object\n"
            f"and the result is told to you as an Observation.{ending}"
        )

    def said(self, text: str, calls: Sequence[tuple[str, str]]) -> str:
        if not calls:
            return f"Final Answer: {text}"
        spelt = [f"Action: {name}\nAction Input: {arguments}" for name, arguments in calls]
        return "\n".join(filter(None, (text and f"Thought: {text}", *spelt)))

    def results(self, results: Sequence[tuple[str, str]]) -> str:
        return "\n".join(f"Observation: {output}" for _, output in results)

    def grammar(self, offer: Offer) -> str:
        grammar = Grammar()
        actions = [
            f'"Action: " {quoted(tool["name"])} "\\nAction Input: " {grammar.value(tool["parameters"])}'
            for tool in offer.tools
        ]
        action = grammar.rule(" | ".join(actions))
        answer = _ANYTHING if offer.answer is None else grammar.value(offer.answer)
        ending = action if offer.must_call else f'({action} | "Final Answer: " {answer})'
        return grammar.text(rf'"Thought: " [^\n\x00]{{1,200}} "\n" {ending}')

    def reader(self, offer: Offer, call_id: str) -> Reader:
        return _ReactReader(offer, call_id)


class _ReactReader:
    def __init__(self, offer: Offer, call_id: str) -> None:
        self._names = offer.names
        self._id = call_id
        self._held = ""
        self._field = ""
        """Where what comes now belongs: nowhere yet, to the thought, or to the answer."""

    def feed(self, text: str) -> list[Delta]:
        if self._field == "content":
            return [{"content": text}]
        self._held += text
        told: list[Delta] = []
        if not self._field and self._held.startswith("Thought: "):
            self._field, self._held = "reasoning_content", self._held.removeprefix("Thought: ")
        if self._field == "reasoning_content":
            thought, line_end, rest = self._held.partition("\n")
            told += [{"reasoning_content": thought}] if thought else []
            self._held, self._field = rest, "line" if line_end else self._field
        if self._field == "line" and self._held.startswith("Final Answer: "):
            answer, self._held, self._field = self._held.removeprefix("Final Answer: "), "", "content"
            told += [{"content": answer}] if answer else []
        return told

    def close(self) -> list[Delta]:
        if not self._held:
            return []
        title, _, arguments = self._held.partition("\nAction Input: ")
        name = title.removeprefix("Action: ")
        if name in self._names and _is_json(arguments):
            return [_call(self._id, name, arguments)]
        return [{"content": self._held}]


FORMS: Mapping[FormName, Form] = {"json": JsonForm(), "react": ReactForm()}


def _listed(offer: Offer) -> str:
    return "\n".join(_ENCODER.encode(tool).decode() for tool in offer.tools)


def _text(value: str) -> str:
    return _ENCODER.encode(value).decode()


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def _call(call_id: str, name: str, arguments: str) -> Delta:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}
