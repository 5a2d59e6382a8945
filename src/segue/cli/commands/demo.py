"""`segue demo`: one conversation through every wire, without a key."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING

from segue.cli.display.terminal import Colours, print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse

    from segue.demo.story import Story

DESCRIPTION = """Shows what segue does, without a key and without a network: one conversation with tools, thinking, an
image, an interruption, a failover and a compaction goes through every wire, over HTTP, against strict stand-ins of the
provider APIs on this machine; then the same history goes there unrepaired."""

_DELAY = 0.03
"""Seconds between two portions of a stream on a terminal: as fast as one reads."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="do not slow down for readers")


def run(arguments: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401, PLC0415 - an extra; say so before anything is opened
    except ImportError:
        print_status("segue: the demo needs uvicorn, which is not installed.")
        print_status("       pip install 'segue-llm[emulators]'")
        return Exit.FINDINGS
    from segue.demo.story import read_story  # noqa: PLC0415 - loaded when the demo begins

    return show(read_story(), fast=arguments.fast)


def show(story: Story, *, fast: bool) -> int:
    """Play a story on stdout; the exit code says whether every wire accepted it."""
    from segue.demo.play import play  # noqa: PLC0415
    from segue.demo.screen import WIDTH, DemoScreen  # noqa: PLC0415

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no arrows shall not end the demo
    on_terminal = sys.stdout.isatty()
    width = min(WIDTH, shutil.get_terminal_size().columns) if on_terminal else WIDTH
    screen = DemoScreen(_write, Colours(sys.stdout), width=width)
    outcome = play(story, screen, delay=_DELAY if on_terminal and not fast else 0.0)
    return Exit.OK if outcome.well else Exit.FINDINGS


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
