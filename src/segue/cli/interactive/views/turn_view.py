"""Shows a turn: the answer streams, running calls are live lines and finished ones blocks, a switch says what was
carried over, and one line sums it up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never, final

from msgspec import Struct

from segue.chat.turn_settings import OVER_BUDGET
from segue.cli.display.call_text import (
    FileChange,
    WrittenArguments,
    call_end,
    call_words,
    change_lines,
    change_of,
    folded,
    writing_words,
)
from segue.cli.display.status_lines import event_line
from segue.cli.display.text_width import cut, cut_beginning, width_of, wrapped
from segue.cli.display.turn_summary import counted, turn_line
from segue.cli.error_report import error_lines, trouble_words
from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Conversation
from segue.errors import InvalidRequestError, OverloadError, RateLimitError, TransportError
from segue.events import (
    ChatEvent,
    Citations,
    Compaction,
    Error,
    Finish,
    MediaChunk,
    PartialOutput,
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
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.citations import source_list

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.cli.interactive.prompts.questions import QuestionView
    from segue.cli.interactive.views.screen import Screen
    from segue.errors import SegueError
    from segue.transcript.repairs import Repair


_NOT_SENT: Final = {
    "reasoning_dropped": ("reasoning block", "not sent: only the provider that wrote {them} can read {them}"),
    "seal_dropped": ("reasoning block", "sent without its signature"),
    "media_described": ("file", "described in words"),
    "message_dropped": ("message", "not sent"),
    "result_superseded": ("repeated result", "not sent"),
    "item_dropped": ("item of another API", "not sent"),
    "text_dropped": ("text behind a call", "not sent"),
}


def show_switch(screen: Screen, switch: Switch, conversation: Conversation | None = None) -> None:
    """Who answers from now on and why, then what it means for the conversation."""
    screen.gap()
    screen.paragraph(f"⇄ {_headline(switch)}", "bold", 2)
    parts = [
        carried(conversation) if conversation is not None else "",
        *losses(switch.losses),
    ]
    if conversation is not None and conversation.messages:
        parts.append("/view shows what is sent" if switch.losses else "nothing is lost")
    if line := " · ".join(part for part in parts if part):
        screen.paragraph(f"  {line}", "dim", 2)


def carried(conversation: Conversation) -> str:
    """`9 messages and 2 tool calls carried over`; "" if there are none."""
    messages = len(conversation.messages)
    calls = sum(len(message.calls) for message in conversation.messages)
    if not messages:
        return ""
    tools = f" and {counted(calls, 'tool call')}" if calls else ""
    return f"{counted(messages, 'message')}{tools} carried over"


def losses(repairs: Iterable[Repair]) -> list[str]:
    """What the new model does not see, or sees in another form: one phrase for each kind."""
    counts = Counter(repair.kind for repair in repairs)
    phrases = []
    for kind, count in counts.items():
        what, how = _NOT_SENT.get(kind, (kind.replace("_", " "), ""))
        them = "it" if count == 1 else "them"
        phrases.append(f"{counted(count, what)} {how.format(them=them)}".rstrip())
    return phrases


def _headline(switch: Switch) -> str:
    if switch.error is not None:
        return f"{switch.model} answers: {trouble_words(switch.error, switch.previous)}"
    why = "" if switch.reason == "asked" else f"; {switch.reason}"
    return f"{switch.model} answers from now on (was {switch.previous}{why})"


NARROW: Final = 60
"""Columns below which seconds and details are not shown."""
MOST_CHANGED: Final = 16
"""Lines of a change that stay in the scrollback."""
_QUICK: Final = 0.5
"""Seconds that are not worth a number."""


@final
class CallView(Struct):
    """A call, since when it runs, and what is known of it."""

    call: ToolCall
    since: float
    change: FileChange | None = None
    """What it does to a file, found before it runs."""
    decision: str = ""
    """What the user answered, if there was a question."""
    progress: str = ""
    result: ToolResult | None = None
    ended: float = 0.0

    def live_line(self, screen: Screen, frame: str, now: float) -> str:
        """The call while it runs, and what it printed last."""
        seconds = f"  {now - self.since:.1f} s"
        room = screen.width - 3 - len(seconds)
        progress = " ".join(sanitised(self.progress).split())
        words = cut(call_words(self.call, done=False), max(room // 2, room - width_of(progress) - 2))
        tail = cut(progress, room - width_of(words) - 2) if progress else ""
        rest = f"  {tail}{seconds}" if tail else seconds
        return f"{screen.paint('yellow', frame)} {words}{screen.paint('dim', rest)}"

    def block(self, screen: Screen) -> list[str]:
        """The call when it has ended: what it did, how it ended, and its folded output."""
        assert self.result is not None  # noqa: S101 - it has ended
        end = call_end(self.call, self.result)
        details = [end.detail, self.decision if end.mark != "-" else ""]
        if self.change is not None and end.mark == "✓":
            details.insert(0, f"+{self.change.added} −{self.change.removed}")
        if end.mark == "-" and self.decision:
            details = [self.decision]
        if self.ended - self.since >= _QUICK:
            details.append(f"{self.ended - self.since:.1f} s")
        detail = " · ".join(part for part in details if part) if screen.width >= NARROW else end.detail
        words = cut(call_words(self.call, done=True), screen.width - 6 - width_of(detail))
        head = f"{screen.paint(end.colour, end.mark)} {words}"
        if detail:
            head += screen.paint("red" if end.mark == "✗" else "dim", f" · {detail}")
        return [head, *self._below(screen, end.output, failed=end.mark == "✗")]

    def whole(self) -> list[str]:
        """Everything about the call, for the pager."""
        arguments = self.call.arguments if isinstance(self.call.arguments, dict) else {"": self.call.raw}
        lines = [f"→ {sanitised(self.call.name)}"]
        lines += [f"    {sanitised(name)}: {sanitised(str(value))}" for name, value in arguments.items()]
        if self.change is not None:
            lines += [f"    {text}" for text, _ in change_lines(self.change)]
        if self.result is not None:
            end = call_end(self.call, self.result)
            output = self.result.output
            text = end.output or tuple(sanitised("" if output is None else str(output)).splitlines())
            lines += [f"{end.mark} {end.detail}".rstrip(), *(f"    {line}" for line in text)]
        return [*lines, ""]

    def _below(self, screen: Screen, output: tuple[str, ...], *, failed: bool) -> list[str]:
        if self.change is not None and not failed:
            lines = change_lines(self.change) if self.decision != "you refused it" else ()
            shown = [screen.paint(colour, screen.shortened(text, 4)) for text, colour in lines[:MOST_CHANGED]]
            if len(lines) > MOST_CHANGED:
                shown.append(screen.paint("dim", f"… {len(lines) - MOST_CHANGED} more lines · ctrl-o"))
            return [f"    {line}" for line in shown]
        return [
            f"    {screen.paint('dim', screen.shortened(line, 4))}" for line in folded(output, failed=failed)
        ]


FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CHANGES_FILES: Final = frozenset({"write_file", "edit_file"})


@final
class TurnScene(Struct, frozen=True):
    """What the view of a turn knows of its chat."""

    model: str = ""
    """The one that the status line names."""
    workspace: Path | None = None
    """Where the built-in tools change files; None if changes are not shown."""
    most_attempts: int = 0
    """At one model; 0 if unknown."""
    ready: tuple[str, ...] = ()
    """Providers to switch to when this one fails."""
    conversation: Callable[[], Conversation] = Conversation


@final
class TurnView:
    """Shows the events of one turn. `tick` repaints the live lines."""

    def __init__(
        self,
        screen: Screen,
        scene: TurnScene,
        *,
        doing: str = "waiting",
        show_reasoning: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scene = scene
        self._screen = screen
        self._show_reasoning = show_reasoning
        self._clock = clock
        self._began = self._turn_began = clock()
        self._calls: dict[str, CallView] = {}
        self._stopped_calls = False
        """A line has reported that a call was stopped."""
        self._call_count = 0
        self._attempts = 0
        """Requests of this turn that failed and were sent again."""
        self._trouble = ""
        """What is wrong with the provider, while a pause lasts."""
        self._retry_at = 0.0
        self.failed = False
        """The turn has failed, and can be tried again."""
        self._doing = doing
        self._thinking_since: float | None = None
        self._reasoning_shown = 0
        """Characters of the reasoning that are on the screen."""
        self._written: dict[int, WrittenArguments] = {}
        """The arguments so far of each call that is being written."""
        self._repairs = 0
        self._model = scene.model
        self.interrupted = False
        self.question: QuestionView | None = None
        """The question that waits for an answer; None if there is none."""
        self.typed = ""
        """What the user types meanwhile; shown as a live line."""
        self.reasoning = ""
        """All reasoning of this turn."""
        self.whole: list[str] = []
        """The calls of this turn with everything about them, for the pager."""
        self.context_tokens: int | None = None
        """Of the last request and its reply; None if unknown."""

    def show(self, event: ChatEvent) -> None:  # noqa: C901, PLR0912, PLR0915 - one case per event, each a line or two
        if self._thinking_since is not None and type(event) is not ReasoningChunk:
            self._end_thinking()
        if type(event) is not Retrying:
            self._trouble = ""
        match event:
            case TextChunk(text):
                if self._doing != "answering":
                    self._screen.gap()
                self._doing = "answering"
                self._screen.text(text)
            case PartialOutput():
                pass  # of answers of a type, which are not asked for here
            case ReasoningChunk(text):
                self._think(text)
            case Citations(citations):
                self._screen.text(f"\n\n{source_list(citations)}")
            case MediaChunk():
                self._note("dim", event_line(event))
            case ToolCallChunk():
                self._write_call(event)
            case ToolCallStart(call):
                self._start_call(call)
            case ToolProgress(call, message):
                if call.id in self._calls:
                    self._calls[call.id].progress = sanitised(message)
            case ToolCallResult(call, result):
                self._end_call(call, result)
            case Repaired(repairs, model):
                self._repairs += len(repairs)
                self._model = model or self._model
            case Switch():
                show_switch(self._screen, event, self._scene.conversation())
            case Retrying(model, error, after):
                self._wait(model, error, after)
            case Compaction():
                self._note("yellow", compaction_line(event))
            case Warned(message, code):
                self._note("yellow", f"The turn was stopped: {message}." if code == OVER_BUDGET else message)
            case TurnComplete():
                self._model = event.model or self._model
                self._doing = "waiting"
                used = event.usage
                if used.input_tokens is not None:
                    self.context_tokens = used.input_tokens + (used.output_tokens or 0)
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
        lines = [self._call_line(call, frame, now) for call in self._calls.values()]
        if self.question is not None:
            lines = self.question.lines()
        elif self._trouble:
            lines = self._trouble_lines(now)
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
            lines.append(self._screen.shortened(f"› {' ⏎ '.join(sanitised(self.typed).splitlines())}"))
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

    def _wait(self, model: str, error: SegueError, after: float) -> None:
        """A pause before another attempt, with a countdown; it vanishes when the answer comes."""
        self._screen.end_text()
        self._attempts += 1
        self._trouble, self._retry_at = trouble_words(error, model), self._clock() + after
        if self._screen.plain:
            self._note("yellow", f"! {self._trouble} · trying again in {after:.0f} s")

    def _trouble_lines(self, now: float) -> list[str]:
        seconds = max(self._retry_at - now, 0)
        when = f"trying again in {seconds:.0f} s" if seconds >= 1 else "trying again"
        of = f" of {self._scene.most_attempts}" if self._scene.most_attempts else ""
        text = f"{self._trouble} · {when} · attempt {self._attempts + 1}{of}"
        first, *others = wrapped(text, self._screen.width - 3)
        hint = "esc stops · /model NAME switches to another model"
        return [
            f"{self._screen.paint('yellow', '!')} {first}",
            *(f"  {line}" for line in others),
            *(self._dim(f"  {line}") for line in wrapped(hint, self._screen.width - 3)),
        ]

    def _write_call(self, event: ToolCallChunk) -> None:
        """A call that is being written: long arguments take a while, so what is there of them is shown."""
        before = self._written.get(event.index, WrittenArguments()) if event.arguments else WrittenArguments()
        written = self._written[event.index] = before.plus(event.arguments)
        self._doing = writing_words(sanitised(event.name), written)

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
            self._screen.gap()
            self._screen.line(f"· thought for {seconds:.0f} s", "dim")

    def _start_call(self, call: ToolCall) -> None:
        self._screen.end_text()
        change = None
        if (
            self._scene.workspace is not None
            and call.name in _CHANGES_FILES
            and isinstance(call.arguments, dict)
        ):
            change = change_of(call.arguments, self._scene.workspace / str(call.arguments.get("path", "")))
        self._calls[call.id] = CallView(call, self._clock(), change)
        self._doing = "waiting"
        if self._screen.plain:
            self._screen.line(self._screen.shortened(f"→ {call_words(call, done=False)}"))

    def decide(self, call_id: str, decision: str) -> None:
        """The user has answered the question about a call. All calls of a batch start after the last answer."""
        if call_id in self._calls:
            self._calls[call_id].decision = decision
        for call in self._calls.values():
            call.since = self._clock()

    def _end_call(self, call: ToolCall, result: ToolResult) -> None:
        ended = self._calls.setdefault(call.id, CallView(call, self._clock()))
        ended.result, ended.ended = result, self._clock()
        if all(other.result is not None for other in self._calls.values()):
            # The batch is over: print its calls, in call order.
            self._screen.gap()
            for done in self._calls.values():
                self._stopped_calls |= done.result is not None and done.result.reason == "cancelled_by_user"
                for line in done.block(self._screen):
                    self._screen.line(line)
                self.whole += done.whole()
            self._call_count += len(self._calls)
            self._calls.clear()
            self._began = self._clock()

    def _call_line(self, call: CallView, frame: str, now: float) -> str:
        return (
            call.live_line(self._screen, frame, now) if call.result is None else call.block(self._screen)[0]
        )

    def _dim(self, text: str) -> str:
        return self._screen.paint("dim", text)

    def _note(self, colour: str, text: str) -> None:
        self._screen.paragraph(text, colour, 2)

    def _fail(self, error: SegueError) -> None:
        self.failed = True
        self._screen.end_text()
        self._screen.gap()
        if not isinstance(error, OverloadError | RateLimitError | TransportError):
            show_error(self._screen, error, model=self._model)
            return
        tried = f" · {self._attempts + 1} attempts in {self._clock() - self._turn_began:.0f} s"
        request = getattr(error, "request_id", "")
        known = [trouble_words(error, self._model) + (tried if self._attempts else ""), request or ""]
        self._screen.paragraph(f"✗ {' · '.join(part for part in known if part)}", "red", 2)
        others = f" · /model switches: {', '.join(self._scene.ready)} can answer" if self._scene.ready else ""
        self._screen.paragraph(f"  Your message is kept. Enter tries again{others}.", indent=2)

    def _finish(self, event: Finish) -> None:
        self._screen.end_text()
        words = {
            "max_turns": "stopped: the limit of requests per turn was reached",
            "cancelled": "interrupted; the conversation stays valid",
            "length": "cut off: the model reached its output limit",
            "content_filter": "stopped by the provider's content filter",
            "waiting": "waiting until somebody says whether its calls may run",
        }
        if event.reason in words and not (event.reason == "cancelled" and self._stopped_calls):
            self._screen.gap()
            self._note("yellow", f"- {words[event.reason]}")
        self._doing = ""
        line = turn_line(
            self._clock() - self._turn_began,
            event.usage,
            model="" if self._model == self._scene.model else self._model,
            calls=self._call_count,
            cost=event.cost,
            repairs=self._repairs,
        )
        if line:  # a turn without a reply has none
            self._screen.gap()
            self._screen.paragraph(f"  {line}", "dim", 2)
        self._screen.live(())


def show_error(screen: Screen, error: SegueError, *, model: str = "") -> None:
    """What went wrong, and what to do."""
    first, *more = error_lines(error, model=model)
    screen.paragraph(f"✗ {first}", "red", 2)
    if isinstance(error, InvalidRequestError) and not error.path:
        more.append("See what was sent: /view")
    for line in more:
        screen.paragraph(f"  {line}", indent=2)


def compaction_line(event: Compaction) -> str:
    sizes = ""
    if event.tokens_before is not None and event.tokens_after is not None:
        sizes = f": about {event.tokens_before} → {event.tokens_after} tokens"
    return f"⇊ compacted ({event.strategy}; {event.why}){sizes}"
