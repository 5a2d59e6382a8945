"""The MCP servers of a project, from the `.mcp.json` that other programs read too. A file must be trusted first."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.cli.config.layers import config_error
from segue.cli.config.places import project_directories
from segue.cli.config.values import McpServer
from segue.cli.trust import MCP_FILE, is_trusted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLE: Final = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def mcp_file(directory: Path) -> Path | None:
    """The nearest one, up to the root of the git work tree."""
    return next((at / MCP_FILE for at in project_directories(directory) if (at / MCP_FILE).is_file()), None)


def untrusted_mcp_file(directory: Path) -> Path | None:
    """A file that is there and is not read, because nobody has trusted it."""
    file = mcp_file(directory)
    return file if file is not None and not is_trusted(file) else None


def project_servers(directory: Path, environment: Mapping[str, str] = os.environ) -> dict[str, McpServer]:
    """The servers that the project's file names; none while it is not trusted."""
    file = mcp_file(directory)
    if file is None or not is_trusted(file):
        return {}
    return read_servers(file, environment)


def read_servers(file: Path, environment: Mapping[str, str]) -> dict[str, McpServer]:
    """`{"mcpServers": {name: {command, args, env} | {type, url, headers}}}`, with ${VARIABLES} filled in."""
    try:
        told: Any = json.loads(file.read_bytes())
        servers = told["mcpServers"]
        return {str(name): _server(server, environment) for name, server in servers.items()}
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise config_error([f'{file}: no {{"mcpServers": …}} that can be read: {error}']) from error


def _server(told: Any, environment: Mapping[str, str]) -> McpServer:
    known = {key: value for key, value in told.items() if key in McpServer.__struct_fields__}
    if known.get("type") == "streamable-http":
        known["type"] = "http"
    return msgspec.convert(_filled(known, environment), McpServer)


def _filled(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, environment) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: environment.get(found["name"], found["default"] or ""), value)
    return value
