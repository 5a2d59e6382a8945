"""What a reader sees: each turn while it happens, then what was mended for it and what the other side said."""

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

_UNNOTICED: Final = "no complaint: it answers from a history with calls that have no result"

WIDTH: Final = 100
"""How long a line may become, where the terminal is wide enough."""
_MARGIN: Final = 12
_HELD: Final = "\u00a0"
"""A space at which no line is broken."""


@final
class DemoScreen:
    """Writes for people, live. `paint` takes the name of a colour and a text."""

    def __init__(
        self, write: Callable[[str], None], paint: Callable[[str, str], str], *, width: int = WIDTH
    ) -> None:
        self._write = write
        self._paint = paint
        self._width = width
        self._model = ""
        self._told = ""
        self._column = 0
        self._word = ""

    # The frame

    def opening(self, address: str, wires: int) -> None:
        self._line(self._paint("bold", f"One conversation through {_number(wires)} wires"))
        self._paragraph(
            f"No key, no network: at {address} emulators of the provider APIs answer over HTTP, "
            "and refuse what the real ones refuse, in their words."
        )

    def closing(self, outcome: DemoResult) -> None:
        all_wires, refused = outcome.all_wires, outcome.refused_unrepaired
        first = f"With segue: {outcome.accepted} of {outcome.sent} requests accepted"
        self._line()
        if outcome.well:
            self._line(self._paint("green", f"{first}, on {outcome.wires} of {all_wires} wires."))
            second = f"Without it: {refused} of {all_wires} wires refused the same history."
        else:
            self._line(self._paint("red", f"{first}."))
            second = "A wire refused what segue said. That is a fault of segue's; please report it."
        self._line(self._paint("red", second))

    # One turn

    def asked(self, number: int, wire: Wire, turn: StoryTurn) -> None:
        self._line()
        self._told = ""
        self._title(f"{number}  ", wire)
        shown = f" [{turn.image}]" if turn.image else ""
        self._labelled("you", f"{turn.user}{shown}")

    def _title(self, lead: str, wire: Wire) -> None:
        self._model = wire.model
        self._line(f"{lead}{self._paint('bold', wire.title)} · {wire.model}")

    def event(self, event: ChatEvent) -> None:
        match event:
            case ReasoningChunk(text):
                self._stream("thinks", text)
            case TextChunk(text):
                self._stream("says", text)
            case ToolCallResult(call, result):
                self._called(call, result)
            case Retrying(error=error):
                self._end()
                self._labelled("answers", f"{_told(error)} It is asked again.", colour="yellow")
            case _:
                pass

    def sealed(self) -> None:
        """A thought without words."""
        self._stream("thinks", f"(sealed: only {self._model} can open it)")

    def _called(self, call: ToolCall, result: ToolResult) -> None:
        self._end()
        spelled = _spelled(call)
        if result.reason is not None:
            self._labelled("calls", f"{spelled:<22} → interrupted by the user", colour="red")
        else:
            answer = result.error or json.dumps(result.output, ensure_ascii=False)
            self._labelled("calls", f"{spelled:<22} → {answer}")

    def failed_over(self, error: SegueError, following: Wire) -> None:
        self._end()
        self._labelled("answers", f"{_told(error)} The next provider takes the turn.", colour="yellow")
        self._title("   → ", following)
        self._told = ""

    def shortened(self, compaction: Compaction, narrator: str) -> None:
        summed_up = f"{narrator} sums up what was said" if compaction.strategy == "summarise" else "some goes"
        self._labelled(
            "compacts",
            f"{compaction.tokens_before} tokens into {compaction.tokens_after}, which fit here: {summed_up}; "
            "no call is parted from its result.",
            colour="yellow",
        )

    def refused(self, error: SegueError) -> None:
        self._end()
        self._labelled("refused", _told(error), colour="red")

    def arrived(self, asked: SentRequest, usage: Usage, accepted: int) -> None:
        """What was mended for the turn's last request, and what the wire said."""
        self._end()
        mended = request_repairs(asked)
        if parts := " · ".join(part.replace(" ", _HELD) for part in _mended(mended)):
            self._labelled("mended", parts)
        if mended.replayed:
            self._labelled(
                "replayed", _seals(mended.replayed, bound=asked.bound), colour="green" if asked.bound else ""
            )
        cached = f" · {usage.cached_tokens} of {usage.input_tokens} tokens from its cache"
        verdict = f"{_many(accepted, 'request')} accepted{cached if usage.cached_tokens else ''}"
        self._labelled("wire", verdict, colour="green")

    # Without segue

    def unrepaired(self) -> None:
        self._line()
        self._line(self._paint("bold", "The same history without segue"))
        self._paragraph("Raw ids, unanswered calls, everyone's thoughts: spelled for each wire, and sent.")

    def judged(self, wire: Wire, refusal: ProviderError | None) -> None:
        status, colour = (200, "yellow") if refusal is None else (refusal.status, "red")
        words = _UNNOTICED if refusal is None else refusal.message
        lines = textwrap.wrap(words, self._width - 26, max_lines=2, placeholder=" …") or [""]
        self._line(f"   {wire.title:<18}{self._paint(colour, str(status))}  {lines[0]}")
        for line in lines[1:]:
            self._line(f"{'':<26}{line}")

    # Lines

    def _line(self, text: str = "") -> None:
        self._write(text + "\n")

    def _paragraph(self, text: str, *, indent: str = "", colour: str = "") -> None:
        for line in textwrap.wrap(text, self._width - len(indent)):
            self._line(indent + (self._paint(colour, line) if colour else line))

    def _labelled(self, label: str, text: str, *, colour: str = "") -> None:
        """A text under its label, which is not said twice in a row."""
        for line in textwrap.wrap(text, self._width - _MARGIN):
            shown = label if self._told != label else ""
            self._told = label
            said = line.replace(_HELD, " ")
            lead = f"   {self._paint('dim', f'{shown:<9}')}"
            self._line(lead + (self._paint(colour, said) if colour else said))

    def _stream(self, label: str, text: str) -> None:
        if self._told != label:
            self._end()
            self._told = label
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
        self._write(self._paint("dim", word) if self._told == "thinks" else word)
        self._column += len(word)

    def _end(self) -> None:
        """Finish the line that is still being written."""
        if self._told in ("says", "thinks"):
            self._put(self._word)
            self._line()
            self._told = ""
        self._word = ""


_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _told(error: SegueError) -> str:
    status = f"{error.status} " if isinstance(error, ProviderError) and error.status else ""
    return f"{status}{error.message}"


def _spelled(call: ToolCall) -> str:
    given: dict[str, Any] = call.arguments or {}
    return f"{call.name}({', '.join(str(value) for value in given.values())})"


_SEALS: Final = {
    "signature": "signature",
    "thought": "thought signature",
    "encrypted": "encrypted thought",
    "redacted": "redacted thought",
}


def _seals(replayed: Sequence[Seal], *, bound: bool) -> str:
    own = _many(len(replayed), _SEALS[replayed[0].kind])
    held = (
        f"; the prefix {'it is' if len(replayed) == 1 else 'they are'} bound to is unbroken" if bound else ""
    )
    return f"{own} of its own, byte for byte{held}"


_WORDS: Final[Mapping[Kind, str]] = {
    "reasoning_dropped": "foreign thought{s} kept back",
    "reasoning_filled": "blank thought{s} filled in",
    "seal_dropped": "foreign signature{s} kept back",
    "call_seal_filled": "stand-in{s} for a missing signature",
    "media_described": "image{s} described in words",
    "bridged": "bridge{s} between results and user",
    "instruction_folded": "note{s} said in the user's place",
    "schema_reduced": "tool schema{s} made simpler",
    "blank_text": "blank text{s} left out",
}
"""Repairs in few words; those that do not occur in the story are told in their own."""


def _mended(mended: RequestRepairs) -> Iterator[str]:
    if mended.closed:
        yield f"{_many(mended.closed, 'interrupted call')} closed"
    for kind, count in _counted(mended.repairs).items():
        words = _WORDS.get(kind, f"× {SENTENCES[kind]}")
        yield f"{count} {words.format(s='' if count == 1 else 's')}"
    if mended.respelled:
        before, after = mended.respelled[-1]
        yield f"{_many(len(mended.respelled), 'id')} respelled ({_elided(before)} → {after})"


def _elided(text: str) -> str:
    return text if len(text) <= 16 else text[:13] + "…"


def _counted(repairs: Sequence[Repair]) -> dict[Kind, int]:
    """How many of each kind, faults of pairing first."""
    counted = Counter(repair.kind for repair in repairs)
    return dict(sorted(counted.items(), key=lambda item: FAULTS[item[0]] != "pairing"))
