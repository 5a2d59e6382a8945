"""A real MCP server with a tool for everything that can happen: run as a program, over stdio or on a port."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8
server = MCPServer("everything")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@server.tool()
def picture() -> list[str | Image]:
    """Give a picture."""
    return ["a picture", Image(data=PNG, format="png")]


@server.tool(structured_output=False)
def mixed() -> types.CallToolResult:
    """Give every kind of content."""
    return types.CallToolResult(
        content=[
            types.TextContent(text="text"),
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            types.ResourceLink(uri="file:///a.txt", name="a.txt", mime_type="text/plain"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///b.txt", text="inside")),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="file:///c.pdf", blob="AAAA", mime_type="application/pdf"
                )
            ),
            types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///d.bin", blob="AAAA")),
        ],
        structured_content={"data": [1, 2]},
    )


@server.tool()
async def slow(seconds: float, note: str, context: Context) -> str:
    """Take a while, telling how far it is; leave a note of how it ended."""
    path = Path(note)
    try:
        for step in range(10):
            await context.report_progress(step + 1, 10, "working")
            await asyncio.sleep(seconds / 10)
    except asyncio.CancelledError:
        path.write_text("cancelled")
        raise
    path.write_text("finished")
    return "done"


@server.tool()
def count(path: str) -> str:
    """Note that it ran, then end the whole server."""
    with Path(path).open("a") as file:
        file.write("ran\n")
    os._exit(3)


@server.tool()
def process() -> int:
    """Tell the id of this process."""
    return os.getpid()


@server.tool()
def environment() -> list[str]:
    """Tell the names of all environment variables."""
    return sorted(os.environ)


@server.tool()
def long() -> str:
    """Say much."""
    return "x" * 100_000


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "broken":
        sys.stderr.write(f"cannot start with {os.environ.get('SECRET_OF_MINE', '')}: no disk\n")
        sys.exit(1)
    elif sys.argv[1] == "silent":
        sys.stdin.read()
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
