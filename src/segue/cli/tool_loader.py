"""Loads tools by name: built-in tools, those of plugins, functions in Python files (`file.py:function`), and agents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec import Struct, structs

from segue.config.paths import AGENTS
from segue.errors import SegueError, UsageError
from segue.plugins import contribution, contributions
from segue.routing.router import Model
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segue.plugins import Contribution
    from segue.tools.definition import Tool
    from segue.tools.sandbox.sandbox import Sandbox

OpenSandbox: TypeAlias = "Callable[[], Sandbox]"
ALL = "all"
NONE = "none"
"""No tools, whatever the settings or the session have."""
ALL_AGENTS: Final = "agents"
AGENT_PREFIX: Final = "agent:"
_READERS: Final = ("read_file", "list_dir", "search")
"""What an agent may use if its file names no tools."""


@final
class ToolSource(Struct):
    """What names of tools mean in one folder."""

    directory: Path
    workspace: Path
    timeout: float | None
    """Seconds that a call of a built-in tool may take."""
    open_model: Callable[[str], Model]
    open_sandbox: OpenSandbox | None = None
    """What commands run in; None: the usual one."""
    problems: dict[str, None] = {}
    """Why some of all agents cannot be used, one line each."""

    def load(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """The tools, each once; agents last, and none in place of a tool."""
        names = list(names)
        agents = [name for name in names if is_agent(name)]
        plain = [name for name in names if name not in agents]
        tools = self._load_plain(plain)
        if not agents:
            return tools
        found = {tool.name: tool for tool in tools}
        for tool in self._load_agents(agents):
            found.setdefault(tool.name, tool)
        return tuple(found.values())

    def _load_plain(self, names: Iterable[str]) -> tuple[Tool, ...]:
        return load_tools(
            names, workspace=self.workspace, timeout=self.timeout, open_sandbox=self.open_sandbox
        )

    def _load_agents(self, names: list[str]) -> Iterator[Tool]:
        """Raises what is wrong with an agent that was named. Of all agents those that cannot be used are reported."""
        for name in names:
            if name != ALL_AGENTS:
                yield self._load_agent(name.removeprefix(AGENT_PREFIX))
                continue
            for agent in AGENTS.find(self.directory):
                try:
                    yield self._load_agent(agent)
                except SegueError as error:
                    problem = f"Agent {agent} is not offered: {error.message} {error.hint}".rstrip()
                    self.problems[problem] = None

    def _load_agent(self, name: str) -> Tool:
        from segue.chat.subagent import subagent_tool  # noqa: PLC0415
        from segue.chat.turn_settings import Budget  # noqa: PLC0415 - a chat without agents pays nothing
        from segue.config.agents import find_agent  # noqa: PLC0415

        agent = find_agent(name, self.directory)
        # An agent starts no other agents.
        names = _READERS if agent.tools is None else agent.tools
        tools = self._load_plain(names)
        return subagent_tool(
            agent.name,
            agent.description,
            self.open_model(agent.model) if agent.model else None,
            tools=tools,
            system=agent.system,
            budget=Budget() if agent.max_turns is None else Budget(max_turns=agent.max_turns),
        )


def load_tools(
    names: Iterable[str],
    *,
    workspace: Path,
    timeout: float | None = None,
    open_sandbox: OpenSandbox | None = None,
) -> tuple[Tool, ...]:
    """The tools, each once, in the order of their names. `timeout`: seconds that a call of a built-in tool may take."""
    names = list(names)
    built_in: dict[str, Tool] = {}
    if any(not is_function(name) for name in names):
        from segue.tools.builtin import builtin_tools  # noqa: PLC0415 - a chat without them pays nothing

        tools = builtin_tools(workspace, sandbox="workspace" if open_sandbox is None else open_sandbox())
        built_in = {
            tool.name: tool if timeout is None else structs.replace(tool, timeout=timeout) for tool in tools
        }
    found: dict[str, Tool] = {}
    for name in names:
        if name == ALL:
            found.update(built_in)
        elif is_function(name):
            tool = _load_function(name)
            found[tool.name] = tool
        elif name in built_in:
            found[name] = built_in[name]
        elif (offered := contribution("tool", name)) is not None:
            found.update({tool.name: tool for tool in plugin_tools(offered)})
        else:
            raise _unusable(
                f'There is no tool "{name}".',
                suggestion(name, [*built_in, *(one.name for one in contributions("tool"))])
                or f"Built-in tools: {', '.join(built_in)}. Your own: file.py:function. Agents: agent:NAME.",
            )
    return tuple(found.values())


def plugin_tools(offered: Contribution) -> list[Tool]:
    """What a package offers under a name: a tool, a function, or several in a list. None of them is the user's own."""
    from segue.tools.function_tools import as_tool  # noqa: PLC0415

    found = offered.load()
    try:
        tools = [as_tool(one) for one in (found if isinstance(found, list | tuple) else [found])]
    except Exception as error:
        raise offered.failure("cannot be used as a tool", error) from error
    return [structs.replace(tool, foreign=True) for tool in tools]


def reserved_names() -> set[str]:
    """Names of tools that no plugin can have."""
    from segue.tools.builtin import builtin_tools  # noqa: PLC0415

    return {ALL, NONE, *(tool.name for tool in builtin_tools(Path.cwd()))}


def is_function(name: str) -> bool:
    """Whether a name is file.py:function."""
    return ".py:" in name


def is_agent(name: str) -> bool:
    return name == ALL_AGENTS or name.startswith(AGENT_PREFIX)


@lru_cache(maxsize=64)
def _load_function(name: str) -> Tool:
    from segue.tools.function_tools import as_tool  # noqa: PLC0415

    path, _, function = name.rpartition(":")
    module = _load_module(Path(path).expanduser())
    found = getattr(module, function, None)
    if found is None:
        known = [
            word for word in vars(module) if callable(getattr(module, word)) and not word.startswith("_")
        ]
        raise _unusable(f"{path} has no function {function}.", suggestion(function, known))
    try:
        return as_tool(found)
    except SegueError as error:
        raise _unusable(f"{name} cannot be used as a tool: {error.message}", error.hint) from error


def _load_module(file: Path) -> Any:
    if not file.is_file():
        raise _unusable(
            f"{file} does not exist.", "Name a Python file and a function in it: file.py:function."
        )
    spec = spec_from_file_location(f"segue_tools_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise _unusable(f"{file} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are looked up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _unusable(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _unusable(message: str, hint: str = "") -> UsageError:
    return UsageError(
        message, code="tool_unusable", hint=hint or "Correct the file, or do not name this tool."
    )
