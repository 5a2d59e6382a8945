"""The MCP servers of a chat: their tools under names of their own, and what is wrong with those that fail."""

from __future__ import annotations

import asyncio
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import structs

from segue.conversation.tools import ToolSpec
from segue.errors import SegueError, UsageError
from segue.redaction import redact_known
from segue.tools.builtin.output_limit import OutputLimit
from segue.tools.definition import Tool
from segue.tools.mcp.config import ServerConfig, read_servers
from segue.tools.mcp.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from mcp_types import Tool as ListedTool

    from segue.tools.definition import Context, Output
    from segue.tools.mcp.questions import AnswerQuestion

MAX_NAME: Final = 64


class McpServers:
    """Nothing is started before `tools` asks for it. Leaving the context ends what was started."""

    def __init__(self, servers: Iterable[ServerConfig], *, outputs: str | Path | None = None) -> None:
        self.problems: dict[str, SegueError] = {}
        """Why a server has no tools, by its name."""
        self.offers: dict[str, int] = {}
        """How many tools each server has that answered, by its name."""
        self._outputs = OutputLimit(None if outputs is None else Path(outputs))
        self.ask: AnswerQuestion | None = None
        """Who can ask the user what a server wants to know; None declines its questions."""
        self._connections = [Connection(server, lambda: self.ask) for server in servers]
        self._tools: tuple[Tool, ...] | None = None
        self._listing = asyncio.Lock()

    @classmethod
    def from_json(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        outputs: str | Path | None = None,
    ) -> Self:
        """The servers in a file like ``.mcp.json``, or in what such a file holds."""
        servers, problems = read_servers(source, os.environ if environment is None else environment)
        made = cls(servers, outputs=outputs)
        made.problems.update(problems)
        return made

    async def tools(self) -> tuple[Tool, ...]:
        """The tools of all servers that answer. All are asked at once, and only the first time."""
        async with self._listing:
            if self._tools is None:
                found = await asyncio.gather(*(self._listed(connection) for connection in self._connections))
                self._tools = self._distinct(found)
            return self._tools

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what was started. The servers may be used again, and are then started again."""
        self._tools = None
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def _listed(self, connection: Connection) -> list[Tool]:
        name = connection.server.name
        try:
            listed = await connection.tools()
        except SegueError as problem:
            self.problems[name] = problem
            self.offers.pop(name, None)
            return []
        self.problems.pop(name, None)
        self.offers[name] = len(listed)
        return [self._tool(connection, tool) for tool in listed]

    def _distinct(self, found: list[list[Tool]]) -> tuple[Tool, ...]:
        """Servers may be called so that their tools get one name: then the first server has it."""
        tools: dict[str, Tool] = {}
        for connection, offered in zip(self._connections, found, strict=True):
            name = connection.server.name
            if taken := next((tool.name for tool in offered if tool.name in tools), ""):
                self.offers.pop(name, None)
                self.problems[name] = UsageError(
                    f'The MCP server "{name}" cannot be used: another one has a tool with the name {taken}.',
                    code="mcp_names",
                    hint="Give the server another name.",
                )
            else:
                tools |= {tool.name: tool for tool in offered}
        return tuple(tools.values())

    def _tool(self, connection: Connection, listed: ListedTool) -> Tool:
        server = connection.server

        async def run(arguments: dict[str, Any], context: Context) -> Output:
            output = await connection.call(listed.name, arguments, context)
            if isinstance(output.value, str):
                return structs.replace(output, value=self._outputs.fit(output.value, context))
            return output

        only_reads = listed.annotations is not None and listed.annotations.read_only_hint is True
        return Tool(
            spec=ToolSpec(
                mcp_tool_name(server.name, listed.name),
                redact_known(listed.description or listed.title or ""),
                listed.input_schema,
            ),
            run=run,
            # A server's word about itself counts only where the user trusts it.
            effect="read" if server.trusted and only_reads else "other",
            foreign=True,
            # Time to start the server again if it was lost, and to cancel the call there.
            timeout=server.start_seconds + server.call_seconds + 5.0,
        )


def mcp_tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, in letters that every provider takes; what had to be changed stays distinct."""
    name = f"mcp__{server}__{tool}"
    fitting = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if fitting == name and len(name) <= MAX_NAME:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{fitting[: MAX_NAME - 9]}_{digest}"
