"""Tools of an MCP server, which this very file is when it is started with `serve`. Run: python examples/mcp_tools.py

Needs the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import sys

from segue import Approval, Chat, ScriptedProvider
from segue.providers import calls, says
from segue.tools import McpServers


def serve() -> None:
    from mcp.server import MCPServer

    server = MCPServer("clock")

    @server.tool()
    def time_in(city: str) -> str:
        """Tell the time in a city."""
        return f"noon in {city}"

    server.run()


async def main() -> None:
    # The same as in a .mcp.json file, whose path `from_json` takes too.
    servers = {"mcpServers": {"clock": {"command": sys.executable, "args": [__file__, "serve"]}}}
    provider = ScriptedProvider([calls(("mcp__clock__time_in", {"city": "Oslo"})), says("It is noon.")])
    async with McpServers.from_json(servers) as mcp:
        tools = await mcp.tools()
        print([tool.name for tool in tools], mcp.problems)
        allowed = Approval(allow=["mcp__clock__*"])
        async with Chat(
            "scripted/any", tools=tools, approval=allowed, providers={"scripted": provider}
        ) as chat:
            print(await chat.send("What time is it in Oslo?"))
            print([interaction.result and interaction.result.output for interaction in chat.ledger.values()])


if sys.argv[1:] == ["serve"]:
    serve()
else:
    asyncio.run(main())

# Prints:
# ['mcp__clock__time_in'] {}
# It is noon.
# ['noon in Oslo']
