"""A list to pick from: typing filters it, arrows and Enter select, Esc cancels. Nothing of it stays on the screen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, final

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output.color_depth import ColorDepth

from segue.cli.display.text_width import cut, wrapped
from segue.cli.interactive.prompts.prompt_terminal import PaintedGate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent

MOST_ROWS: Final = 12
_HINT: Final = "type to filter · enter selects · esc cancels"


@final
class _List:
    """The options that fit the filter, and which one is chosen."""

    def __init__(
        self, title: str, options: Sequence[tuple[str, str]], default: str, note: Callable[[str], str]
    ) -> None:
        self._title = title
        self._options = options
        self._note = note
        self._notes: dict[str, str] = {}
        self.filter = ""
        values = [value for value, _ in options]
        self._at = values.index(default) if default in values else 0

    def shown(self) -> list[tuple[str, str]]:
        words = self.filter.lower().split()
        return [
            (value, label)
            for value, label in self._options
            if all(word in f"{value} {label}".lower() for word in words)
        ]

    def chosen(self) -> str:
        shown = self.shown()
        return shown[self._at][0] if self._at < len(shown) else ""

    def move(self, by: int) -> None:
        self._at = max(min(self._at + by, len(self.shown()) - 1), 0)

    def type(self, text: str) -> None:
        self.filter, self._at = text, 0

    def fragments(self) -> StyleAndTextTuples:
        columns, lines = shutil.get_terminal_size()
        width, rows = max(columns, 20) - 1, max(min(MOST_ROWS, lines - 7), 3)
        parts: StyleAndTextTuples = [("bold", f"  {line}\n") for line in wrapped(self._title, width - 2)]
        parts += [("dim", f"  {line}\n") for line in wrapped(_HINT, width - 2)]
        parts += [("ansicyan", "  › "), ("", f"{self.filter}\n\n")]
        shown = self.shown()
        first = max(min(self._at - rows // 2, len(shown) - rows), 0)
        for place, (value, label) in enumerate(shown[first : first + rows], first):
            note = self._noted(value)
            room = max(width - 4 - (len(note) + 2 if note else 0), 12)
            mark, style = ("›", "ansicyan bold") if place == self._at else (" ", "")
            parts.append((style, f"  {mark} {cut(label, room)}"))
            parts.append(("dim", f"  {cut(note, width - 18)}\n" if note else "\n"))
        parts.append(("dim", f"    {len(shown)} of {len(self._options)}"))
        return parts

    def _noted(self, value: str) -> str:
        if value not in self._notes:
            self._notes[value] = self._note(value)
        return self._notes[value]


async def pick(
    title: str,
    options: Sequence[tuple[str, str]],
    *,
    default: str = "",
    note: Callable[[str], str] = lambda _value: "",
    colourless: bool = False,
) -> str:
    """The value of the selected option; "" if cancelled. `note`: said beside an option while it can be seen."""
    listed, gate = _List(title, options, default, note), PaintedGate()
    application: Application[str] = Application(
        layout=Layout(
            Window(FormattedTextControl(listed.fragments, show_cursor=False), dont_extend_height=True)
        ),
        key_bindings=_bindings(listed, gate),
        color_depth=ColorDepth.MONOCHROME if colourless else None,
        erase_when_done=True,
    )
    gate.watch(application)
    return await application.run_async()


def _bindings(listed: _List, gate: PaintedGate) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(gate.is_open))
    def _(event: KeyPressEvent) -> None:
        if chosen := listed.chosen():
            event.app.exit(result=chosen)

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result="")

    for names, by in ((("up", "c-p"), -1), (("down", "c-n"), 1), (("pageup",), -10), (("pagedown",), 10)):
        for name in names:
            keys.add(name)(lambda _event, by=by: listed.move(by))

    @keys.add("backspace")
    def _(_event: KeyPressEvent) -> None:
        listed.type(listed.filter[:-1])

    @keys.add("c-u")
    def _(_event: KeyPressEvent) -> None:
        listed.type("")

    @keys.add("<any>")
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            listed.type(listed.filter + event.data)

    return keys
