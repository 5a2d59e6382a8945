"""A real MCP server that tells its tools two at a time, or goes round in circles."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

NAMES = ["one", "two", "three", "four", "five"]


async def list_tools(_context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    start = int(params.cursor) if params is not None and params.cursor else 0
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in NAMES[start : start + 2]]
    following = "0" if sys.argv[1] == "circle" else str(start + 2) if start + 2 < len(NAMES) else None
    return types.ListToolsResult(tools=tools, next_cursor=following)


async def main() -> None:
    server: Server[Any] = Server("paged", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
