"""A server of the Model Context Protocol for the examples in docs: `python docs/examples/clock.py`."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("clock")


@server.tool()
def time_in(city: str) -> str:
    """Tell the time in a city."""
    return f"noon in {city}"


if __name__ == "__main__":
    server.run()
