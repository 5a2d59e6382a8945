"""One tool call on the screen: a live line while it runs, a finished block when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cli.display.call_text import call_end, call_words, folded
from segue.cli.display.file_changes import FileChange, change_lines
from segue.cli.display.text_width import cut, width_of
from segue.conversation.blocks import ToolCall, ToolResult
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from segue.cli.interactive.views.screen import Screen

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
