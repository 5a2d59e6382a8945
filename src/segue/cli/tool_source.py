"""Loads the tools of a chat by their names: built-in tools, functions of files, tools of plugins, and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.cli.agents import agent_tools, is_agent
from segue.cli.tool_loader import is_function, load_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from segue.chat.lifecycle import Model
    from segue.tools.definition import Tool


@final
class ToolSource:
    """What names of tools mean in one folder."""

    def __init__(
        self, directory: Path, workspace: Path, timeout: float | None, open_model: Callable[[str], Model]
    ) -> None:
        """`timeout`: seconds that a call of a built-in tool may take."""
        self.problems: dict[str, None] = {}
        """Why some of all agents cannot be used, one line each."""
        self._directory = directory
        self._workspace = workspace
        self._timeout = timeout
        self._open_model = open_model

    def load(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """The tools, each once; agents last, and none in place of a tool."""
        names = list(names)
        tools = self._plain(name for name in names if not is_agent(name))
        agents = agent_tools(
            [name for name in names if is_agent(name)],
            self._directory,
            load=self._plain,  # an agent starts no other agents
            open_model=self._open_model,
        )
        self.problems |= dict.fromkeys(agents.problems)
        taken = {tool.name for tool in tools}
        return (*tools, *(tool for tool in agents.tools if tool.name not in taken))

    def own(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """Functions of files and agents: whoever names one wants it to run. What an agent calls is judged by itself."""
        return self.load(name for name in names if is_agent(name) or is_function(name))

    def _plain(self, names: Iterable[str]) -> tuple[Tool, ...]:
        return load_tools(names, workspace=self._workspace, timeout=self._timeout)
