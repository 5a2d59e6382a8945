"""What a reader sees: each turn while it happens, then what was mended for it and what the other side said."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

from segue.conversation.events import ReasoningDelta, Sealed, TextDelta
from segue.errors import ProviderError
from segue.transcript.repairs import FAULTS, SENTENCES
from segue.transcript.steps import ModelStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from segue.conversation.blocks import ToolCall
    from segue.conversation.events import Event
    from segue.conversation.interaction import Interaction, Ledger
    from segue.demo.hops import Exchange
    from segue.demo.play import Outcome
    from segue.demo.script import Compaction, Route, Turn
    from segue.errors import SegueError
    from segue.transcript.repairs import Kind, Repair

_UNNOTICED: Final = "no complaint: it answers from a history with calls that have no result"

WIDTH: Final = 100
"""How long a line may become, where the terminal is wide enough."""
_MARGIN: Final = 12
_HELD: Final = "\u00a0"
"""A space at which no line is broken."""


@final
class Screen:
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
        self._thought = False

    # The frame

    def opening(self, address: str, wires: int) -> None:
        self._line(self._paint("bold", f"One conversation through {_number(wires)} wires"))
        self._paragraph(
            f"No key, no network: at {address} emulators of the provider APIs answer over HTTP, "
            "and refuse what the real ones refuse, in their words."
        )

    def compacted(self, compaction: Compaction) -> None:
        count = compaction.last - compaction.first + 1
        what = f"{count} messages become a note; the cut goes between calls and their results."
        self._line()
        self._paragraph(f"Compaction: {what}", indent="   ", colour="yellow")

    def closing(self, outcome: Outcome) -> None:
        all_wires, refused = len(outcome.routes), outcome.refused_unrepaired
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

    def asked(self, number: int, route: Route, turn: Turn) -> None:
        self._line()
        self._told = ""
        self._title(f"{number}  ", route)
        shown = f" [{turn.image}]" if turn.image else ""
        self._labelled("you", f"{turn.user}{shown}")

    def _title(self, lead: str, route: Route) -> None:
        self._model = route.model
        self._line(f"{lead}{self._paint('bold', route.title)} · {route.model}")

    def event(self, event: Event) -> None:
        match event:
            case ReasoningDelta(_, text):
                self._thought = True
                self._stream("thinks", text)
            case TextDelta(_, text) if text:
                self._stream("says", text)
            case Sealed(block="reasoning"):
                if not self._thought:
                    self._stream("thinks", f"(sealed: only {self._model} can open it)")
                self._thought = False
            case _:
                pass

    def called(self, interaction: Interaction) -> None:
        self._end()
        spelled, result = _spelled(interaction.call), interaction.result
        if result is None or result.reason is not None:
            self._labelled("calls", f"{spelled:<22} → interrupted by the user", colour="red")
        else:
            answer = result.error or json.dumps(result.output, ensure_ascii=False)
            self._labelled("calls", f"{spelled:<22} → {answer}")

    def failed_over(self, error: SegueError, following: Route) -> None:
        self._end()
        self._labelled("answers", f"{_told(error)} The next provider takes the turn.", colour="yellow")
        self._title("   → ", following)
        self._told = ""

    def refused(self, error: SegueError) -> None:
        self._end()
        self._labelled("refused", _told(error), colour="red")

    def arrived(self, done: Sequence[Exchange], ledger: Ledger, accepted: int) -> None:
        """What was mended for the turn, and what the wire said."""
        self._end()
        last = done[-1]
        if mended := " · ".join(part.replace(" ", _HELD) for part in _mended(last, ledger)):
            self._labelled("mended", mended)
        if last.replayed:
            self._labelled("replayed", _seals(last), colour="green" if last.bound else "")
        usage = last.reply.usage
        cached = f" · {usage.cached_tokens} of {usage.input_tokens} tokens from its cache"
        verdict = f"{_many(accepted, 'request')} accepted{cached if usage.cached_tokens else ''}"
        self._labelled("wire", verdict, colour="green")

    # Without segue

    def unrepaired(self) -> None:
        self._line()
        self._line(self._paint("bold", "The same history without segue"))
        self._paragraph("Raw ids, unanswered calls, everyone's thoughts: spelled for each wire, and sent.")

    def judged(self, route: Route, refusal: ProviderError | None) -> None:
        status, colour = (200, "yellow") if refusal is None else (refusal.status, "red")
        words = _UNNOTICED if refusal is None else refusal.message
        lines = textwrap.wrap(words, self._width - 26, max_lines=2, placeholder=" …") or [""]
        self._line(f"   {route.title:<18}{self._paint(colour, str(status))}  {lines[0]}")
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
        self._word, self._thought = "", False


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


def _seals(last: Exchange) -> str:
    own = _many(len(last.replayed), _SEALS[last.replayed[0].kind])
    one = len(last.replayed) == 1
    held = f"; the prefix {'it is' if one else 'they are'} bound to is unbroken" if last.bound else ""
    return f"{own} of its own, byte for byte{held}"


_WORDS: Final[Mapping[Kind, str]] = {
    "call_closed": "unanswered call{s} closed",
    "call_recovered": "lost call{s} taken from the ledger",
    "reasoning_dropped": "foreign thought{s} kept back",
    "reasoning_filled": "blank thought{s} filled in",
    "seal_dropped": "foreign signature{s} kept back",
    "call_seal_filled": "stand-in{s} for a missing signature",
    "media_described": "image{s} described in words",
    "bridged": "bridge{s} between results and user",
    "blank_text": "blank text{s} left out",
}
"""Repairs in few words; those that do not occur in the story are told in their own."""


def _mended(last: Exchange, ledger: Ledger) -> Iterator[str]:
    for kind, count in _counted(last.repairs).items():
        words = _WORDS.get(kind, f"× {SENTENCES[kind]}")
        yield f"{count} {words.format(s='' if count == 1 else 's')}"
    respelled = [
        (native, call.id)
        for step in last.transcript.steps
        if type(step) is ModelStep
        for call in step.calls
        if call.call_id in ledger and (native := ledger[call.call_id].call.native_id) != call.id
    ]
    if respelled:
        before, after = respelled[-1]
        yield f"{_many(len(respelled), 'id')} respelled ({_elided(before)} → {after})"


def _elided(text: str) -> str:
    return text if len(text) <= 16 else text[:13] + "…"


def _counted(repairs: Sequence[Repair]) -> dict[Kind, int]:
    """How many of each kind, faults of pairing first. A call that was recovered need not be called missing too."""
    recovered = {call for repair in repairs if repair.kind == "call_recovered" for call in repair.call_ids}
    counted = Counter(
        repair.kind
        for repair in repairs
        if repair.kind != "call_reconstructed" or not recovered.issuperset(repair.call_ids)
    )
    return dict(sorted(counted.items(), key=lambda item: FAULTS[item[0]] != "pairing"))
