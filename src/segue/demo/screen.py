"""What `segue demo` prints: each turn while it happens, then its repairs and the verdict of the provider."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

from segue.demo.wire_log import request_repairs
from segue.errors import ProviderError
from segue.events import ReasoningChunk, Retrying, TextChunk, ToolCallResult
from segue.transcript.repairs import FAULTS, SENTENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from segue.conversation.blocks import Seal, ToolCall, ToolResult
    from segue.conversation.usage import Usage
    from segue.demo.play import DemoResult
    from segue.demo.story import StoryTurn, Wire
    from segue.demo.wire_log import RequestRepairs, SentRequest
    from segue.errors import SegueError
    from segue.events import ChatEvent, Compaction
    from segue.transcript.repairs import Kind, Repair

_ACCEPTED: Final = "accepted: it answers although calls have no result"

WIDTH: Final = 100
"""The longest line, if the terminal is wide enough."""
_MARGIN: Final = 12
_HELD: Final = "\u00a0"
"""A space at which no line breaks."""


@final
class DemoScreen:
    """Prints the demo live. `paint` takes the name of a colour and a text."""

    def __init__(
        self, write: Callable[[str], None], paint: Callable[[str, str], str], *, width: int = WIDTH
    ) -> None:
        self._write = write
        self._paint = paint
        self._width = width
        self._model = ""
        self._label = ""
        self._column = 0
        self._word = ""

    # The frame

    def opening(self, address: str, wires: int) -> None:
        self._line(self._paint("bold", f"One conversation through {_number(wires)} wire formats"))
        self._paragraph(
            f"No key, no network: emulators of the provider APIs answer over HTTP at {address}. "
            "They refuse what the real APIs refuse, with the same messages."
        )

    def closing(self, outcome: DemoResult) -> None:
        all_wires, refused = outcome.all_wires, outcome.refused_unrepaired
        first = f"With segue: {outcome.accepted} of {outcome.sent} requests accepted"
        self._line()
        if outcome.well:
            self._line(self._paint("green", f"{first}, on {outcome.wires} of {all_wires} wire formats."))
            second = f"Without it: {refused} of {all_wires} refused the same history."
        else:
            self._line(self._paint("red", f"{first}."))
            second = "A request of segue was refused. This is a bug; please report it."
        self._line(self._paint("red", second))

    # One turn

    def begin_turn(self, number: int, wire: Wire, turn: StoryTurn) -> None:
        self._line()
        self._label = ""
        self._title(f"{number}  ", wire)
        shown = f" [{turn.image}]" if turn.image else ""
        self._labelled("user", f"{turn.user}{shown}")

    def _title(self, lead: str, wire: Wire) -> None:
        self._model = wire.model
        self._line(f"{lead}{self._paint('bold', wire.title)} · {wire.model}")

    def event(self, event: ChatEvent) -> None:
        match event:
            case ReasoningChunk(text):
                self._stream("thinks", text)
            case TextChunk(text):
                self._stream("answers", text)
            case ToolCallResult(call, result):
                self._called(call, result)
            case Retrying(error=error):
                self._end()
                self._labelled("error", f"{_error_text(error)} Retrying.", colour="yellow")
            case _:
                pass

    def sealed(self) -> None:
        """Reasoning without visible text."""
        self._stream("thinks", f"(sealed: only {self._model} can read it)")

    def _called(self, call: ToolCall, result: ToolResult) -> None:
        self._end()
        text = _call_text(call)
        if result.reason is not None:
            self._labelled("calls", f"{text:<22} → interrupted by the user", colour="red")
        else:
            answer = result.error or json.dumps(result.output, ensure_ascii=False)
            self._labelled("calls", f"{text:<22} → {answer}")

    def failed_over(self, error: SegueError, following: Wire) -> None:
        self._end()
        self._labelled("error", f"{_error_text(error)} The next provider answers instead.", colour="yellow")
        self._title("   → ", following)
        self._label = ""

    def shortened(self, compaction: Compaction, narrator: str) -> None:
        how = (
            f"{narrator} wrote a summary"
            if compaction.strategy == "summarise"
            else "some messages were dropped"
        )
        self._labelled(
            "compacts",
            f"{compaction.tokens_before} tokens to {compaction.tokens_after}, to fit this model: {how}; "
            "every call keeps its result.",
            colour="yellow",
        )

    def refused(self, error: SegueError) -> None:
        self._end()
        self._labelled("refused", _error_text(error), colour="red")

    def arrived(self, request: SentRequest, usage: Usage, accepted: int) -> None:
        """The repairs of the turn's last request, and how many requests were accepted."""
        self._end()
        repairs = request_repairs(request)
        if parts := " · ".join(part.replace(" ", _HELD) for part in _repair_texts(repairs)):
            self._labelled("repaired", parts)
        if repairs.replayed:
            self._labelled(
                "replayed",
                _seals(repairs.replayed, bound=request.bound),
                colour="green" if request.bound else "",
            )
        cached = f" · {usage.cached_tokens} of {usage.input_tokens} tokens cached"
        verdict = f"{_many(accepted, 'request')} accepted{cached if usage.cached_tokens else ''}"
        self._labelled("provider", verdict, colour="green")

    # Without segue

    def unrepaired(self) -> None:
        self._line()
        self._line(self._paint("bold", "The same history without segue"))
        self._paragraph(
            "Original ids, unanswered calls, reasoning of every model: encoded for each wire format and sent."
        )

    def judged(self, wire: Wire, refusal: ProviderError | None) -> None:
        status, colour = (200, "yellow") if refusal is None else (refusal.status, "red")
        words = _ACCEPTED if refusal is None else refusal.message
        lines = textwrap.wrap(words, self._width - 26, max_lines=2, placeholder=" …") or [""]
        self._line(f"   {wire.title:<18}{self._paint(colour, str(status))}  {lines[0]}")
        for line in lines[1:]:
            self._line(f"{'':<26}{line}")

    # Lines

    def _line(self, text: str = "") -> None:
        self._write(text + "\n")

    def _paragraph(self, text: str) -> None:
        for line in textwrap.wrap(text, self._width):
            self._line(line)

    def _labelled(self, label: str, text: str, *, colour: str = "") -> None:
        """A text after its label, which is not repeated on the next line."""
        for line in textwrap.wrap(text, self._width - _MARGIN):
            shown = label if self._label != label else ""
            self._label = label
            plain = line.replace(_HELD, " ")
            lead = f"   {self._paint('dim', f'{shown:<9}')}"
            self._line(lead + (self._paint(colour, plain) if colour else plain))

    def _stream(self, label: str, text: str) -> None:
        if self._label != label:
            self._end()
            self._label = label
            self._write(f"   {self._paint('dim', f'{label:<9}')}")
            self._column = _MARGIN
        *words, self._word = (self._word + text).split(" ")
        for word in words:
            self._put(word)

    def _put(self, word: str) -> None:
        if self._column + len(word) >= self._width:
            self._write("\n" + " " * _MARGIN)
            self._column = _MARGIN
        elif self._column > _MARGIN:
            self._write(" ")
            self._column += 1
        self._write(self._paint("dim", word) if self._label == "thinks" else word)
        self._column += len(word)

    def _end(self) -> None:
        """Finish the line that is still being written."""
        if self._label in ("answers", "thinks"):
            self._put(self._word)
            self._line()
            self._label = ""
        self._word = ""


_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _error_text(error: SegueError) -> str:
    status = f"{error.status} " if isinstance(error, ProviderError) and error.status else ""
    return f"{status}{error.message}"


def _call_text(call: ToolCall) -> str:
    given: dict[str, Any] = call.arguments or {}
    return f"{call.name}({', '.join(str(value) for value in given.values())})"


_SEALS: Final = {
    "signature": "signature",
    "thought": "thought signature",
    "encrypted": "encrypted reasoning block",
    "redacted": "redacted reasoning block",
}


def _seals(replayed: Sequence[Seal], *, bound: bool) -> str:
    own = _many(len(replayed), _SEALS[replayed[0].kind])
    return f"{own} of its own, byte for byte{'; the signed prefix is unchanged' if bound else ''}"


_WORDS: Final[Mapping[Kind, str]] = {
    "reasoning_dropped": "foreign reasoning block{s} dropped",
    "reasoning_filled": "empty reasoning block{s} added",
    "seal_dropped": "foreign signature{s} dropped",
    "call_seal_filled": "missing signature{s} filled in",
    "media_described": "image{s} described in words",
    "bridged": "message{s} added between results and user",
    "instruction_folded": "system note{s} sent as user text",
    "schema_reduced": "tool schema{s} simplified",
    "blank_text": "empty text{s} dropped",
}
"""Repairs in few words; those that do not occur in the story have their general sentence."""


def _repair_texts(repairs: RequestRepairs) -> Iterator[str]:
    if repairs.closed:
        yield f"{_many(repairs.closed, 'interrupted call')} closed"
    for kind, count in _counted(repairs.repairs).items():
        words = _WORDS.get(kind, f"× {SENTENCES[kind]}")
        yield f"{count} {words.format(s='' if count == 1 else 's')}"
    if repairs.converted:
        before, after = repairs.converted[-1]
        yield f"{_many(len(repairs.converted), 'id')} converted ({_elided(before)} → {after})"


def _elided(text: str) -> str:
    return text if len(text) <= 16 else text[:13] + "…"


def _counted(repairs: Sequence[Repair]) -> dict[Kind, int]:
    """How many of each kind, faults of pairing first."""
    counted = Counter(repair.kind for repair in repairs)
    return dict(sorted(counted.items(), key=lambda item: FAULTS[item[0]] != "pairing"))
