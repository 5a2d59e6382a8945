"""Which MCP servers there are, read from the file that other programs use as well.

The common form is ``{"mcpServers": {name: {command, args, env} or {type: "http", url, headers}}}``; the forms of
opencode (``mcp``), Codex (``mcp_servers``, TOML) and VS Code (``servers``) are read alike. ``${NAME}`` and
``${NAME:-default}`` are taken from the environment. Keys that only other programs know are left alone.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.errors import UsageError

if TYPE_CHECKING:
    import os

CALL_SECONDS: Final = 120.0
START_SECONDS: Final = 60.0
_TABLES: Final = ("mcpServers", "mcp_servers", "mcp", "servers")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}|\{env:(\w+)\}")


@final
class StdioAddress(Struct, frozen=True, kw_only=True):
    """A server that is started as a child and reached over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Beside the few harmless variables that every child gets, all that it gets."""
    cwd: str | None = None

    def __repr__(self) -> str:
        return f"StdioAddress({self.command})"


@final
class HttpAddress(Struct, frozen=True, kw_only=True):
    """A server at an address."""

    url: str
    headers: dict[str, str] = {}
    is_old: bool = False
    """It uses the transport of before 2025: events and requests on two addresses."""

    def __repr__(self) -> str:
        return f"HttpAddress({self.url.partition('?')[0]})"


ServerAddress: TypeAlias = StdioAddress | HttpAddress


@final
class ServerConfig(Struct, frozen=True, kw_only=True):
    """One server and how long to wait for it."""

    name: str
    address: ServerAddress
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    trusted: bool = False
    """Its own description of its tools is believed: those that only read need no approval."""
    sandboxed: bool = True
    """A child runs in the sandbox of the chat, where that has one."""
    hosts: tuple[str, ...] = ("*",)
    """That a child may reach from the sandbox."""
    paths: tuple[str, ...] = ()
    """That a child may write beside the workspace, and see though they are hidden."""

    @property
    def given(self) -> dict[str, str]:
        """What the user gives this server: variables or headers. Their values must not be shown."""
        return self.address.env if isinstance(self.address, StdioAddress) else self.address.headers


def read_servers(
    source: str | os.PathLike[str] | Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    data: bytes | None = None,
) -> tuple[list[ServerConfig], dict[str, UsageError]]:
    """The servers that are switched on, and what is wrong with those that cannot be used. `data`: what was read from the
    file already."""
    where, table = _table(source, data)
    servers: list[ServerConfig] = []
    problems: dict[str, UsageError] = {}
    for name, entry in table.items():
        try:
            if not isinstance(entry, Mapping):
                raise _bad(name, "is not an object", "Give it a command or a url.")
            if entry.get("disabled") is True or entry.get("enabled") is False:
                continue
            servers.append(_server(name, _expanded(entry, name, environment)))
        except UsageError as problem:
            problem.path = f"{where}{name}"
            problems[name] = problem
    return servers, problems


def _table(
    source: str | os.PathLike[str] | Mapping[str, Any], data: bytes | None
) -> tuple[str, Mapping[str, Any]]:
    parsed: Any = source
    where = ""
    if not isinstance(source, Mapping):
        path = Path(source)
        where = f"{path.name}: "
        try:
            text = (path.read_bytes() if data is None else data).decode("utf-8-sig")
            parsed = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The list of MCP servers cannot be read: {error}.",
                code="bad_mcp_file",
                path=str(path),
                hint='It should be JSON like {"mcpServers": {"name": {"command": "…"}}}.',
            ) from error
    for key in _TABLES:
        table = parsed.get(key) if isinstance(parsed, Mapping) else None
        if isinstance(table, Mapping):
            return where, table
    raise UsageError(
        "The list of MCP servers has no servers in it.",
        code="bad_mcp_file",
        path=where.removesuffix(": "),
        hint='It should be JSON like {"mcpServers": {"name": {"command": "…"}}}.',
    )


def _expanded(value: Any, name: str, environment: Mapping[str, str]) -> Any:
    def known(found: re.Match[str]) -> str:
        variable, default = found[1] or found[3], found[2]
        value = environment.get(variable, default)
        if value is None:
            raise _bad(
                name,
                f"needs the environment variable {variable}, which is not set",
                f"Set {variable}, or disable it.",
            )
        return str(value)

    if isinstance(value, str):
        return _VARIABLE.sub(known, value)
    if isinstance(value, Mapping):
        return {key: _expanded(held, name, environment) for key, held in value.items()}
    return [_expanded(held, name, environment) for held in value] if isinstance(value, list) else value


def _server(name: str, entry: dict[str, Any]) -> ServerConfig:
    try:
        return _config(name, entry, _http(entry) if _is_http(entry, name) else _stdio(entry))
    except (msgspec.ValidationError, LookupError, TypeError) as error:
        raise _bad(
            name, f"has invalid settings ({error})", "Compare it with the server's own instructions."
        ) from None


def _config(name: str, entry: dict[str, Any], address: ServerAddress) -> ServerConfig:
    return ServerConfig(
        name=name,
        address=address,
        call_seconds=_seconds(entry, "timeout", "tool_timeout_sec") or CALL_SECONDS,
        start_seconds=_seconds(entry, "startup_timeout_ms", "startup_timeout_sec") or START_SECONDS,
        trusted=entry.get("trust") is True,
        sandboxed=entry.get("sandbox") not in (False, "off"),
        hosts=_names(entry, "hosts", ("*",)),
        paths=_names(entry, "paths", ()),
    )


def _names(entry: dict[str, Any], field: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    return msgspec.convert(entry[field], tuple[str, ...]) if field in entry else usual


def _is_http(entry: dict[str, Any], name: str) -> bool:
    if any(key in entry for key in ("url", "httpUrl", "serverUrl")):
        return True
    if entry.get("command"):
        return False
    raise _bad(name, "has neither a command nor a url", "Give it one of them.")


def _stdio(entry: dict[str, Any]) -> StdioAddress:
    command, args = entry["command"], entry.get("args") or []
    if isinstance(command, list):
        command, args = command[0], [*command[1:], *args]
    if not isinstance(args, list):
        raise TypeError("args is no list")
    env = _texts(entry.get("env") or entry.get("environment") or {})
    fields = {"command": command, "args": [_text(arg) for arg in args], "env": env, "cwd": entry.get("cwd")}
    return msgspec.convert(fields, StdioAddress)


def _http(entry: dict[str, Any]) -> HttpAddress:
    url = entry.get("httpUrl") or entry.get("url") or entry.get("serverUrl")
    headers = _texts(entry.get("headers") or entry.get("http_headers") or {})
    return msgspec.convert(
        {"url": url, "headers": headers, "is_old": entry.get("type") == "sse"}, HttpAddress
    )


def _texts(values: Any) -> Any:
    return {name: _text(value) for name, value in values.items()} if isinstance(values, dict) else values


def _text(value: Any) -> Any:
    """Numbers are often written without quotes."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _seconds(entry: dict[str, Any], milliseconds: str, seconds: str) -> float | None:
    """Other programs count in milliseconds, except where the name ends in sec."""
    for key, unit in ((seconds, 1.0), (milliseconds, 0.001)):
        value = entry.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return value * unit
    return None


def _bad(name: str, what: str, hint: str) -> UsageError:
    return UsageError(f'The MCP server "{name}" {what}.', code="bad_mcp_server", hint=hint)
