"""The MCP servers of a chat: their tools under names of their own, and what is wrong with those that fail."""

from __future__ import annotations

import asyncio
import os
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import structs

from segue.conversation.tools import ToolSpec
from segue.errors import SegueError, UsageError
from segue.system.worker_threads import in_thread
from segue.text.redaction import redact_known
from segue.tools.builtin.output_limit import OutputLimit
from segue.tools.definition import Output, Tool
from segue.tools.mcp.config import ServerConfig, read_servers
from segue.tools.mcp.connection import Connection, McpTool, ToolList, ToolListCache
from segue.tools.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segue.tools.definition import Context
    from segue.tools.mcp.questions import AnswerQuestion
    from segue.tools.sandbox.policy import SandboxMode

MAX_NAME: Final = 64


class McpServers:
    """Nothing is started before `tools` asks for it, or where a list is kept before a tool is called. Leaving the
    context ends what was started."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        *,
        outputs: str | Path | None = None,
        cache: str | Path | None = None,
        sandbox: Sandbox | SandboxMode = "workspace",
    ) -> None:
        """`cache`: the folder where lists of tools are kept, so that a server starts when one of its tools is called.
        `sandbox`: what servers run in that are started here; its workspace is the current folder unless it is given."""
        self.problems: dict[str, SegueError] = {}
        """Why a server has no tools, by its name."""
        self.offers: dict[str, int] = {}
        """How many tools each server has that answered, by its name."""
        self._outputs = OutputLimit(None if outputs is None else Path(outputs))
        self.ask: AnswerQuestion | None = None
        """Who can ask the user what a server wants to know; None declines its questions."""
        held = Sandbox(Path.cwd(), sandbox) if isinstance(sandbox, str) else sandbox
        self._connections = [Connection(server, lambda: self.ask, held) for server in servers]
        self._cache = ToolListCache(None if cache is None else Path(cache))
        self._unstarted: dict[str, ToolList] = {}
        """The kept lists of servers that were not started yet, by name."""
        self._tools: tuple[Tool, ...] | None = None
        self._listing = asyncio.Lock()

    @classmethod
    def from_json(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        outputs: str | Path | None = None,
        cache: str | Path | None = None,
        sandbox: Sandbox | SandboxMode = "workspace",
    ) -> Self:
        """The servers in a file like ``.mcp.json``, or in what such a file holds."""
        servers, problems = read_servers(source, os.environ if environment is None else environment)
        made = cls(servers, outputs=outputs, cache=cache, sandbox=sandbox)
        made.problems.update(problems)
        return made

    async def tools(self) -> tuple[Tool, ...]:
        """The tools of all servers that answer. All are asked at once, and only the first time."""
        async with self._listing:
            if self._tools is None:
                self._tools = self._distinct(await asyncio.gather(*map(self._listed, self._connections)))
            return self._tools

    async def reload(self) -> tuple[Tool, ...]:
        """Ask all servers again, also those whose lists are kept."""
        async with self._listing:
            self._unstarted.clear()
            self._tools = self._distinct(await asyncio.gather(*map(self._asked, self._connections)))
            return self._tools

    @property
    def waiting(self) -> list[str]:
        """Servers that have not answered yet."""
        known = {*self.offers, *self.problems}
        names = (connection.server.name for connection in self._connections)
        return [name for name in names if name not in known]

    @property
    def unstarted(self) -> frozenset[str]:
        """Servers whose tools are known from a kept list; a call starts them."""
        return frozenset(self._unstarted)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End what was started. The servers may be used again, and are then started again."""
        self._tools = None
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def _listed(self, connection: Connection) -> list[Tool]:
        kept = await in_thread(lambda: self._cache.read(connection.server))
        if kept is None:
            return await self._asked(connection)
        self._unstarted[connection.server.name] = kept
        return self._offered(connection, kept)

    async def _asked(self, connection: Connection) -> list[Tool]:
        name = connection.server.name
        try:
            listed = await self._read_list(connection)
        except SegueError as problem:
            self.problems[name] = problem
            self.offers.pop(name, None)
            return []
        return self._offered(connection, listed)

    def _offered(self, connection: Connection, listed: ToolList) -> list[Tool]:
        name = connection.server.name
        self.problems.pop(name, None)
        self.offers[name] = len(listed.tools)
        return [self._tool(connection, tool) for tool in listed.tools]

    async def _read_list(self, connection: Connection) -> ToolList:
        tools = tuple(await connection.tools())
        listed = ToolList(tools=tools, version=await connection.version(), at=time.time())
        await in_thread(lambda: self._cache.write(connection.server, listed))
        return listed

    async def _start(self, connection: Connection, tool: str) -> str:
        """Start a server whose list was kept; why this tool of it cannot be called, else "". A new version may have
        other tools, so its list is read."""
        name = connection.server.name
        kept = self._unstarted.pop(name, None)
        if kept is None:
            return ""
        try:
            if await connection.version() == kept.version:
                return ""
            listed = await self._read_list(connection)
        except SegueError as problem:
            self.problems[name] = problem
            self._cache.forget(connection.server)  # the next chat shall report it at once
            raise
        if any(known.name == tool for known in listed.tools):
            return ""
        return f"The MCP server {name} was changed and has no tool {tool} any more."

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

    def _tool(self, connection: Connection, listed: McpTool) -> Tool:
        server = connection.server

        async def run(arguments: dict[str, Any], context: Context) -> Output:
            if gone := await self._start(connection, listed.name):
                return Output(error=gone)
            output = await connection.call(listed.name, arguments, context)
            if isinstance(output.value, str):
                return structs.replace(output, value=self._outputs.fit(output.value, context))
            return output

        return Tool(
            spec=ToolSpec(
                mcp_tool_name(server.name, listed.name),
                redact_known(listed.description),
                listed.input_schema,
            ),
            run=run,
            # A server's word about itself counts only where the user trusts it.
            effect="read" if server.trusted and listed.read_only else "other",
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
