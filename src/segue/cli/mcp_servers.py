"""The MCP servers of the settings, and those of the project's `.mcp.json` once it is trusted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from segue.config.paths import mcp_lists_directory
from segue.config.trust import is_trusted
from segue.tools.mcp.config import read_servers
from segue.tools.mcp.servers import McpServers

if TYPE_CHECKING:
    from pathlib import Path

    from segue.config.schema import McpSettings


def open_servers(settings: McpSettings, file: Path | None) -> tuple[McpServers | None, Path | None]:
    """All servers that may be used, or None if there are none; and the project's file if it is not read, because the user
    has not trusted it. A server starts when its tools are requested, or if their list is kept when one of them is called."""
    data = None if file is None else file.read_bytes()
    untrusted = None
    if file is not None and not is_trusted(file, data):
        file, untrusted = None, file
    if not settings.servers and file is None:
        return None, untrusted
    own = {
        name: {"tool_timeout_sec": settings.timeout, **_written_fields(server)}
        for name, server in settings.servers.items()
    }
    servers, problems = read_servers({"mcpServers": own}, os.environ)
    if file is not None:
        more, wrong = read_servers(file, os.environ, data=data)  # what was checked is what is used
        taken = {server.name for server in servers}
        servers += [server for server in more if server.name not in taken]
        problems |= wrong
    opened = McpServers(servers, cache=mcp_lists_directory())
    opened.problems.update(problems)
    return opened, untrusted


def _written_fields(server: msgspec.Struct) -> dict[str, object]:
    """A server as written in the settings, without defaults."""
    fields: dict[str, object] = msgspec.to_builtins(server)
    return {key: value for key, value in fields.items() if value not in ("", [], {}, None, False)}
