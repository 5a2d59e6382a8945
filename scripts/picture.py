"""Runs a command in a real terminal and draws what its screen shows as an SVG: the pictures in README and docs.

    python -m scripts.picture docs/pictures/demo.toml

A scene is a TOML file: `command`, `columns`, `rows`, and `steps` of what to wait for and what to type. The picture is
written beside it. Nothing is touched up: what the picture shows was on the screen.
"""

from __future__ import annotations

import re
import sys
import time
import tomllib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pexpect
import pyte
from msgspec import Struct
from pyte.screens import HistoryScreen

if TYPE_CHECKING:
    from pyte.screens import Char

CELL_WIDTH, CELL_HEIGHT = 8.4, 18
COLOURS = {
    "black": "#21222c",
    "red": "#ff6e6e",
    "green": "#69ff94",
    "brown": "#e9c46a",
    "blue": "#82aaff",
    "magenta": "#d6acff",
    "cyan": "#7fdbff",
    "white": "#d8d8e0",
    "default": "#d8d8e0",
    "brightblack": "#8a8aa0",
}
BACKGROUND = "#16161e"


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """Wait until the screen shows `see`, then type `keys`."""

    see: str = ""
    keys: str = ""
    seconds: float = 20.0


class Scene(Struct, frozen=True, forbid_unknown_fields=True):
    """What is played, and on how large a screen."""

    command: str
    columns: int = 100
    rows: int = 30
    steps: tuple[Step, ...] = ()
    environment: dict[str, str] = {}
    scrollback: int = 0
    """Lines above the last screen that the picture shows too."""


def play(scene: Scene) -> list[list[Char]]:
    """The lines on the screen when the scene is over."""
    import os  # noqa: PLC0415 - the surroundings matter to the played command alone

    screen = HistoryScreen(scene.columns, scene.rows, history=2000)
    stream = pyte.ByteStream(screen)
    surroundings = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PROMPT_TOOLKIT_NO_CPR": "1", **scene.environment}
    child: pexpect.spawn[bytes] = pexpect.spawn(
        "/bin/bash",
        ["-c", scene.command],
        dimensions=(scene.rows, scene.columns),
        env=surroundings,
        timeout=5,
    )
    for step in scene.steps:
        _wait(child, screen, stream, step)
        child.send(step.keys)
    _drain(child, stream, 2.0)
    child.close(force=True)
    above = list(screen.history.top)[-scene.scrollback :] if scene.scrollback else []
    lines = [*above, *(screen.buffer[row] for row in range(scene.rows))]
    cells = [[line[column] for column in range(scene.columns)] for line in lines]
    while cells and not "".join(cell.data for cell in cells[-1]).strip():
        cells.pop()
    return cells


def _wait(child: pexpect.spawn[bytes], screen: HistoryScreen, stream: pyte.ByteStream, step: Step) -> None:
    deadline = time.monotonic() + step.seconds
    while not re.search(step.see, "\n".join(screen.display)):
        if time.monotonic() > deadline:
            shown = "\n".join(screen.display)
            raise SystemExit(f"The screen never showed {step.see!r}:\n{shown}")
        _drain(child, stream, 0.1)
    _drain(child, stream, 0.1)


def _drain(child: pexpect.spawn[bytes], stream: pyte.ByteStream, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            stream.feed(child.read_nonblocking(65_536, 0.05))
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            return


def draw(cells: list[list[Char]], columns: int) -> str:
    """The lines as an SVG."""
    width, height = columns * CELL_WIDTH + 32, len(cells) * CELL_HEIGHT + 32
    rows = [_row(line, index) for index, line in enumerate(cells)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _row(line: list[Char], index: int) -> str:
    pieces: list[str] = []
    start = 0
    while start < len(line):
        end = start + 1
        while end < len(line) and _look(line[end]) == _look(line[start]):
            end += 1
        text = "".join(cell.data for cell in line[start:end])
        if text.strip():
            pieces.append(
                f'<tspan x="{16 + start * CELL_WIDTH:.1f}"{_style(line[start])}>{escape(text.rstrip())}</tspan>'
            )
        start = end
    return f'<text y="{28 + index * CELL_HEIGHT}" xml:space="preserve">{"".join(pieces)}</text>'


def _look(cell: Char) -> tuple[str, bool, bool, bool]:
    return cell.fg, cell.bold, cell.italics, cell.reverse


def _style(cell: Char) -> str:
    colour = COLOURS.get(
        cell.fg, f"#{cell.fg}" if re.fullmatch("[0-9a-f]{6}", cell.fg) else COLOURS["default"]
    )
    weight = ' font-weight="bold"' if cell.bold else ""
    slant = ' font-style="italic"' if cell.italics else ""
    return f' fill="{colour}"{weight}{slant}'


def main(paths: list[str]) -> None:
    for path in map(Path, paths):
        scene = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Scene)
        path.with_suffix(".svg").write_text(draw(play(scene), scene.columns), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
