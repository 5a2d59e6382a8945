"""`segue demo`: one conversation through every wire format, or one agent through the gateway, without a key."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from segue.cli.display.terminal import Colours
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse

    from segue.demo.story import Story

DESCRIPTION = """Shows what segue does, without a key or a network: one conversation with tools, reasoning, an image, an
interruption, a failover and a compaction moves through every wire format, over HTTP, to strict emulators of the
provider APIs on this machine. Then the same history is sent without repairs. "segue demo gateway" shows one agent
script on one wire, with the model behind it changed three times while it runs."""

_DELAY = 0.03
"""Seconds between two portions of a stream on a terminal, at reading speed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("gateway",), help="one agent through the gateway instead")
    parser.add_argument("--fast", action="store_true", help="do not slow down to reading speed")


def run(arguments: argparse.Namespace) -> int:
    if arguments.what == "gateway":
        return show_gateway(fast=arguments.fast)
    from segue.demo.story import read_story  # noqa: PLC0415 - loaded when the demo begins

    return show(read_story(), fast=arguments.fast)


def show_gateway(*, fast: bool) -> int:
    """Play the demo of the gateway on stdout."""
    from segue.demo.gateway_play import play_gateway  # noqa: PLC0415

    on_terminal = _prepare()
    result = play_gateway(_write, Colours(sys.stdout), delay=_DELAY if on_terminal and not fast else 0.0)
    return Exit.OK if result.well else Exit.FINDINGS


def _prepare() -> bool:
    """Whether stdout is a terminal. One without arrows must not end the demo."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return sys.stdout.isatty()


def show(story: Story, *, fast: bool) -> int:
    """Play a story on stdout; the exit code says whether every request was accepted."""
    from segue.demo.play import play  # noqa: PLC0415
    from segue.demo.screen import WIDTH, DemoScreen  # noqa: PLC0415

    on_terminal = _prepare()
    width = min(WIDTH, shutil.get_terminal_size().columns) if on_terminal else WIDTH
    screen = DemoScreen(_write, Colours(sys.stdout), width=width)
    outcome = play(story, screen, delay=_DELAY if on_terminal and not fast else 0.0)
    return Exit.OK if outcome.well else Exit.FINDINGS


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
