"""Subagents of files as tools: `-T agent:NAME`, or `-T agents` for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.chat.budget import Budget
from segue.chat.subagent import subagent_tool
from segue.cli.tool_loader import AGENT_PREFIX, ALL_AGENTS
from segue.config.agents import agent_files, find_agent
from segue.errors import SegueError
from segue.tools.definition import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from segue.chat.lifecycle import Model

_READERS: Final = ("read_file", "list_dir", "search")
"""What an agent may use if its file names no tools."""


@final
class AgentTools(Struct, kw_only=True):
    """The agents that can be called, and why others cannot, one line each."""

    tools: list[Tool] = []
    problems: list[str] = []


def agent_tools(
    names: Iterable[str],
    start: Path,
    *,
    load: Callable[[Iterable[str]], Iterable[Tool]],
    open_model: Callable[[str], Model],
) -> AgentTools:
    """Raises what is wrong with an agent that was named. Of all agents those that cannot be used are reported."""
    found = AgentTools()
    known: set[str] = set()
    for name in names:
        wanted = agent_files(start) if name == ALL_AGENTS else [name.removeprefix(AGENT_PREFIX)]
        for agent in wanted:
            if agent in known:
                continue
            known.add(agent)
            try:
                found.tools.append(agent_tool(agent, start, load=load, open_model=open_model))
            except SegueError as error:
                if name != ALL_AGENTS:
                    raise
                found.problems.append(f"Agent {agent} is not offered: {error.message} {error.hint}".rstrip())
    return found


def agent_tool(
    name: str,
    start: Path,
    *,
    load: Callable[[Iterable[str]], Iterable[Tool]],
    open_model: Callable[[str], Model],
) -> Tool:
    agent = find_agent(name, start)
    return subagent_tool(
        agent.name,
        agent.description,
        open_model(agent.model) if agent.model else None,
        tools=load(_READERS if agent.tools is None else agent.tools),
        system=agent.system,
        budget=Budget() if agent.max_turns is None else Budget(max_turns=agent.max_turns),
    )
