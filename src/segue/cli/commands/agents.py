"""`segue agents`: lists the subagents that -T agent:NAME takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Lists subagents: a model may give them a task with -T agent:NAME, or -T agents. One Markdown file each: docs/cli.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="show the folder for your own, and exit")


def run(arguments: argparse.Namespace) -> int:
    from segue.config.agents import user_agents  # noqa: PLC0415

    if arguments.path:
        sys.stdout.write(f"{user_agents()}\n")
        return Exit.OK
    lines = agent_lines(Path.cwd())
    for line in lines:
        sys.stdout.write(f"{line}\n")
    if not lines:
        print_status(f"There are no agents. Yours are files in {user_agents()}.")
    return Exit.OK


def agent_lines(start: Path) -> list[str]:
    """Name, purpose and model of each, or why it cannot be used."""
    from segue.config.agents import agent_files, find_agent  # noqa: PLC0415
    from segue.errors import SegueError  # noqa: PLC0415

    files = agent_files(start)
    width = max(map(len, files), default=0)
    lines: list[str] = []
    for name in files:
        try:
            agent = find_agent(name, start)
            about = f"{agent.description}{f' · {agent.model}' if agent.model else ''}"
        except SegueError as error:
            about = f"{error.message} {error.hint}"
        lines.append(sanitised(f"{name:<{width}}  {about}"))
    return lines
