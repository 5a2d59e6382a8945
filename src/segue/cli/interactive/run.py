"""`segue` at a terminal: opens the chat and hands it over."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from msgspec import structs

from segue.cli.chat_start import begin_chat
from segue.cli.display.status_lines import switch_line
from segue.cli.display.terminal import Colours
from segue.cli.exit_codes import Exit
from segue.cli.interactive.commands.select import pick_session
from segue.cli.interactive.repl import converse
from segue.cli.interactive.screen import Screen
from segue.cli.runtime import Runtime
from segue.config.paths import history_file

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    runtime = Runtime(arguments)
    # Of each turn: a one-shot counts all of its own, a chat has no end to count to.
    most = arguments.max_cost or runtime.config.limits.max_cost
    runtime.budget = structs.replace(runtime.budget, max_cost=most)
    plain = arguments.plain or os.environ.get("TERM") == "dumb"
    screen = Screen(
        sys.stdout, Colours(sys.stdout, plain=plain), plain=plain, markdown=runtime.config.ui.markdown
    )
    try:
        if arguments.resume == "":
            arguments.resume = await pick_session(runtime, screen.width)
            if not arguments.resume:
                return Exit.INTERRUPTED
        chat = await begin_chat(
            runtime,
            arguments,
            report=lambda line: screen.paragraph(line, "dim"),
            on_switch=lambda switch: screen.paragraph(f"⇄ {switch_line(switch)}", "bold", 2),
        )
        return await converse(chat, runtime, screen, history=None if arguments.no_session else history_file())
    finally:
        await runtime.close()
