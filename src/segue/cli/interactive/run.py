"""`segue` at a terminal: opens the chat and hands it over."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from segue.cli.beginning import begin_chat
from segue.cli.config.places import history_file
from segue.cli.interactive.repl import converse
from segue.cli.interactive.screen import Screen
from segue.cli.notes import switch_line
from segue.cli.surroundings import Surroundings
from segue.cli.terminal import Paint

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    around = Surroundings(arguments)
    screen = Screen(sys.stdout, Paint(sys.stdout), plain=arguments.plain or not around.config.ui.markdown)
    try:
        chat = await begin_chat(
            around,
            arguments,
            say=lambda line: screen.say(screen.paint("dim", line)),
            hear=lambda switch: screen.say(f"⇄ {switch_line(switch)}"),
        )
        return await converse(
            chat,
            around,
            screen,
            history=None if arguments.no_session else history_file(),
            show_reasoning=False,
        )
    finally:
        await around.close()
