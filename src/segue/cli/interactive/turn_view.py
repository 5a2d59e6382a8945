"""Shows a turn: the answer streams, running calls are live lines, and one line sums it up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, assert_never, final

from msgspec import Struct

from segue.chat.budget import OVER_BUDGET
from segue.cli.display.status_lines import event_line, switch_line
from segue.cli.display.text_width import cut, cut_beginning, width_of
from segue.cli.display.turn_summary import summary_line
from segue.cli.error_report import error_lines
from segue.conversation.blocks import ToolCall, ToolResult, status_of
from segue.events import (
    ChatEvent,
    Compaction,
    Error,
    Finish,
    MediaChunk,
    ReasoningChunk,
    Repaired,
    Retrying,
    Switch,
    TextChunk,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStart,
    ToolProgress,
    TurnComplete,
    Warned,
)
from segue.terminal_text import sanitised
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.cli.interactive.question_view import QuestionView
    from segue.cli.interactive.screen import Screen
    from segue.errors import SegueError

LONG_ARGUMENTS: Final = 200
"""Characters from which on the size of arguments is shown while they arrive."""
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS: Final = {"complete": ("✓", "green"), "error": ("✗", "red"), "cancelled": ("⊘", "yellow")}


@final
class _Running(Struct):
    call: ToolCall
    since: float
    progress: str = ""
    result: ToolResult | None = None
    ended: float = 0.0


@final
class TurnView:
    """Shows the events of one turn. `tick` repaints the live lines."""

    def __init__(
        self,
        screen: Screen,
        *,
        model: str = "",
        doing: str = "waiting",
        show_reasoning: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen = screen
        self._show_reasoning = show_reasoning
        self._clock = clock
        self._began = clock()
        self._calls: dict[str, _Running] = {}
        self._doing = doing
        self._thinking_since: float | None = None
        self._reasoning_shown = 0
        """Characters of the reasoning that are on the screen."""
        self._written: dict[int, int] = {}
        """Characters of the arguments of each call that is being written."""
        self._repairs = 0
        self._model = model
        self.interrupted = False
        self.question: QuestionView | None = None
        """The question that waits for an answer; None if there is none."""
        self.typed = ""
        """What the user types meanwhile; shown as a live line."""
        self.reasoning = ""
        """All reasoning of this turn."""

    def show(self, event: ChatEvent) -> None:  # noqa: C901, PLR0912 - one case per event, each a line or two
        if self._thinking_since is not None and type(event) is not ReasoningChunk:
            self._end_thinking()
        match event:
            case TextChunk(text):
                self._doing = "answering"
                self._screen.text(text)
            case ReasoningChunk(text):
                self._think(text)
            case MediaChunk():
                self._note("dim", event_line(event))
            case ToolCallChunk():
                self._write_call(event)
            case ToolCallStart(call):
                self._screen.end_text()
                self._calls[call.id] = _Running(call, self._clock())
                if self._screen.plain:
                    self._screen.line(self._screen.shortened(f"→ {call_text(call)}"))
            case ToolProgress(call, message):
                if call.id in self._calls:
                    self._calls[call.id].progress = sanitised(message)
            case ToolCallResult(call, result):
                self._end_call(call, result)
            case Repaired(repairs, model):
                self._repairs += len(repairs)
                self._model = model or self._model
            case Switch():
                self._screen.paragraph(f"⇄ {switch_line(event)}", "bold", 2)
            case Retrying(model, error, after):
                pause = f" in {after:.0f} s" if after >= 1 else ""
                self._note("yellow", f"{model}: {error.message} Retrying{pause}.")
            case Compaction():
                self._note("yellow", compaction_line(event))
            case Warned(message, code):
                self._note("yellow", f"The turn was stopped: {message}." if code == OVER_BUDGET else message)
            case TurnComplete():
                self._model = event.model or self._model
                self._doing = "waiting"
            case Error(error):
                self._fail(error)
            case Finish():
                self._finish(event)
            case _:
                assert_never(event)
        self.tick()

    def tick(self) -> None:
        """Repaint the live lines."""
        now = self._clock()
        frame = FRAMES[int((now - self._began) * 10) % len(FRAMES)]
        lines = [self._call_line(running, frame, now) for running in self._calls.values()]
        if self.question is not None:
            lines = self.question.lines()
        elif self._doing and not lines:
            thinks = self._thinking_since is not None
            what = (
                f"{frame} {'thinking' if thinks else self._doing} {now - self._began:.0f}s · esc: interrupt"
            )
            lines = [self._dim(self._screen.shortened(what))]
            if thinks and not self._show_reasoning:
                tail = cut_beginning(" ".join(self.reasoning[-400:].split()), self._screen.width - 4)
                lines.insert(0, self._dim(f"  {tail}"))
        if self.typed:
            lines.append(self._screen.shortened(f"> {' ⏎ '.join(sanitised(self.typed).splitlines())}"))
        self._screen.live(lines)

    def type(self, typed: str) -> None:
        self.typed = typed
        if self.question is not None:
            self.tick()

    def reveal(self) -> None:
        """Show or hide the reasoning."""
        self._show_reasoning = not self._show_reasoning
        if self._show_reasoning:
            self._print_reasoning(whole=self._thinking_since is None)
        self.tick()

    def _write_call(self, event: ToolCallChunk) -> None:
        """A call that is being written: long arguments take a while, so their size is shown."""
        written = self._written.get(event.index, 0) + len(event.arguments) if event.arguments else 0
        self._written[event.index] = written
        size = f" ({written} characters)" if written >= LONG_ARGUMENTS else ""
        self._doing = f"calling {sanitised(event.name)}{size}"

    def _think(self, text: str) -> None:
        if self._thinking_since is None:
            self._screen.end_text()
            self._thinking_since = self._clock()
            if self.reasoning:
                self.reasoning += "\n\n"
                self._reasoning_shown = max(self._reasoning_shown, len(self.reasoning))
        self.reasoning += sanitised(text)
        if self._show_reasoning:
            self._print_reasoning(whole=False)

    def _print_reasoning(self, *, whole: bool) -> None:
        """Print new reasoning: complete lines only, or all of it."""
        end = len(self.reasoning) if whole else self.reasoning.rfind("\n") + 1
        for line in self.reasoning[self._reasoning_shown : end].strip("\n").splitlines():
            self._screen.paragraph(f"  {line}", "dim", 2)
        self._reasoning_shown = max(self._reasoning_shown, end)

    def _end_thinking(self) -> None:
        seconds = self._clock() - (self._thinking_since or 0.0)
        self._thinking_since = None
        if self._show_reasoning:
            self._print_reasoning(whole=True)
        else:
            self._screen.line(f"∴ thought for {seconds:.0f}s · show it: ctrl-o", "dim")

    def _end_call(self, call: ToolCall, result: ToolResult) -> None:
        running = self._calls.setdefault(call.id, _Running(call, self._clock()))
        running.result, running.ended = result, self._clock()
        if all(other.result is not None for other in self._calls.values()):
            # The batch is over: print its lines, in call order.
            for done in self._calls.values():
                self._screen.line(self._call_line(done, "", done.ended))
            self._calls.clear()
            self._began = self._clock()

    def _call_line(self, running: _Running, frame: str, now: float) -> str:
        paint, width = self._screen.paint, self._screen.width - 1
        seconds = f" {now - running.since:.1f}s"
        room = width - len(seconds) - 2
        if running.result is None:
            mark, colour, outcome = frame, "yellow", f"  {running.progress}" if running.progress else ""
        else:
            mark, colour = _MARKS.get(status_of(running.result), ("?", "yellow"))
            outcome = f" → {result_text(running.result)}"
        outcome = " ".join(outcome.split())
        # The shorter one gives its room to the other.
        head = " ".join(call_text(running.call).split())
        head = cut(head, max(room // 2, room - width_of(outcome) - 1))
        rest = f"{seconds} {cut(outcome, room - width_of(head) - 1)}".rstrip()
        return f"{paint(colour, mark)} {head}{paint('dim', rest)}"

    def _dim(self, text: str) -> str:
        return self._screen.paint("dim", text)

    def _note(self, colour: str, text: str) -> None:
        self._screen.paragraph(text, colour, 2)

    def _fail(self, error: SegueError) -> None:
        show_error(self._screen, error, model=self._model)

    def _finish(self, event: Finish) -> None:
        self._screen.end_text()
        words = {
            "max_turns": "stopped: the limit of requests per turn was reached",
            "cancelled": "interrupted; the conversation stays valid",
            "length": "cut off: the model reached its output limit",
            "content_filter": "stopped by the provider's content filter",
        }
        if event.reason in words:
            self._note("yellow", f"⊘ {words[event.reason]}")
        line = summary_line(self._model, event.usage, cost=event.cost, repairs=self._repairs)
        self._doing = ""
        if line != self._model:  # a turn without a reply has no summary
            self._screen.paragraph(line, "dim", 2)
        self._screen.live(())

    @property
    def finished(self) -> bool:
        return not self._doing


def show_error(screen: Screen, error: SegueError, *, model: str = "") -> None:
    """What went wrong, and what to do."""
    first, *more = error_lines(error, model=model)
    screen.paragraph(f"✗ {first}", "red", 2)
    for line in more:
        screen.paragraph(f"  {line}", indent=2)


def call_text(call: ToolCall) -> str:
    """`read_file(path: src/main.py)`: a call for people."""
    if isinstance(call.arguments, dict):
        arguments = ", ".join(f"{name}: {_plain(value)}" for name, value in call.arguments.items())
    else:
        arguments = call.raw
    return sanitised(f"{call.name}({arguments})")


def result_text(result: ToolResult) -> str:
    """How a call ended, for people."""
    if result.reason is not None:
        return result.reason.replace("_", " ")
    if result.error is not None:
        return sanitised(result.error)
    return sanitised(_plain(result.output)) or ("an image" if result.media else "nothing")


def compaction_line(event: Compaction) -> str:
    sizes = ""
    if event.tokens_before is not None and event.tokens_after is not None:
        sizes = f": about {event.tokens_before} → {event.tokens_after} tokens"
    return f"⇊ compacted ({event.strategy}; {event.why}){sizes}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json_of(value)
