"""`segue agents`: lists the subagents that -T agent:NAME takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.lists import name_lines, print_names
from segue.config.paths import AGENTS

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Lists subagents: a model may give them a task with -T agent:NAME, or -T agents. One Markdown file each: docs/cli.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", action="store_true", help="show the folder for your own, and exit")


def run(arguments: argparse.Namespace) -> int:
    return print_names(AGENTS, lambda: agent_lines(Path.cwd()), only_folder=arguments.path)


def agent_lines(start: Path) -> list[str]:
    """Name, purpose and model of each, or why it cannot be used."""
    from segue.config.agents import find_agent  # noqa: PLC0415

    def about(name: str) -> str:
        agent = find_agent(name, start)
        return f"{agent.description}{f' · {agent.model}' if agent.model else ''}"

    return name_lines(AGENTS.find(start), about)
