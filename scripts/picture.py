"""Runs a command in a real terminal and draws what its screen shows as an SVG: the pictures in README and docs.

    python -m scripts.picture docs/pictures/demo.toml

A scene is a TOML file: `command`, `columns`, `rows`, and `steps` of what to wait for and what to type. The picture is
written beside it. Nothing is touched up: what the picture shows was on the screen.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from scripts.terminal import Terminal

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
    quiet: float = 0.0
    """Seconds without a change before the keys: a question takes no key that may have been meant for something else."""


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
    surroundings = {**os.environ, **scene.environment}
    command = ("/bin/bash", "-c", scene.command)
    with Terminal(
        command, columns=scene.columns, rows=scene.rows, environment=surroundings, answers=True
    ) as terminal:
        for step in scene.steps:
            terminal.wait_for(step.see, step.seconds)
            if step.quiet:
                terminal.settle(step.quiet)
            terminal.type(step.keys)
        terminal.settle(1.0)
        cells = terminal.cells()[-scene.rows - scene.scrollback :]
    while cells and not "".join(cell.data for cell in cells[-1]).strip():
        cells.pop()
    return cells


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
