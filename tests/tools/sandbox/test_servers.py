"""What other programs that segue starts may reach: MCP servers over stdio are held, programs of `segue run` are the user's."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool
from segue.tools.mcp.servers import McpServers
from segue.tools.sandbox.mechanisms import mechanism_here
from segue.tools.sandbox.sandbox import Sandbox
from tools.sandbox.lasting_folders import lasting_folder
from tools.tool_runs import perform

HERE = mechanism_here()
pytestmark = [
    pytest.mark.skipif(not HERE.holds, reason=f"no sandbox works here: {HERE.why}"),
    pytest.mark.timeout(120),
]

SERVER = """
import socket
from pathlib import Path
from mcp.server import MCPServer

server = MCPServer("curious")

@server.tool()
def read(path: str) -> str:
    "Reads a file."
    try:
        return Path(path).read_text()
    except OSError as error:
        return f"no: {error}"

@server.tool()
def write(path: str) -> str:
    "Writes a file."
    try:
        Path(path).write_text("x")
    except OSError as error:
        return f"no: {error}"
    return "done"

@server.tool()
def connect(port: int) -> str:
    "Connects to this machine."
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return f"no: {error}"
    return "done"

server.run("stdio")
"""


@pytest.fixture
def base() -> Iterator[Path]:
    made = lasting_folder()
    for name in ("work", "outside", "keys"):
        (made / name).mkdir()
    (made / "keys" / "key").write_text("SECRET")
    (made / "work" / "server.py").write_text(SERVER)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def ask(base: Path, entry: dict[str, Any], *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """What a server answers to these calls, with an entry of its own."""

    async def main() -> list[str]:
        sandbox = Sandbox(base / "work", hidden=[str(base / "keys")])
        server = {"command": sys.executable, "args": [str(base / "work" / "server.py")], **entry}
        async with McpServers.from_json({"mcpServers": {"s": server}}, sandbox=sandbox) as opened:
            tools = {tool.name: tool for tool in await opened.tools()}
            assert opened.problems == {}
            return [str((await perform(tools[f"mcp__s__{name}"], given)).value) for name, given in calls]

    return asyncio.run(main())


def test_a_server_writes_in_the_workspace_and_sees_no_keys(base: Path) -> None:
    answers = ask(
        base,
        {},
        ("write", {"path": f"{base}/work/new"}),
        ("write", {"path": f"{base}/outside/new"}),
        ("read", {"path": f"{base}/keys/key"}),
    )
    assert answers[0] == "done"
    assert answers[1].startswith("no: ")
    assert answers[2].startswith("no: ")
    assert not (base / "outside" / "new").exists()


def test_an_entry_gives_a_server_paths_and_takes_hosts_from_it(base: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        entry = {"paths": [f"{base}/outside", f"{base}/keys"]}
        answers = ask(
            base,
            entry,
            ("write", {"path": f"{base}/outside/new"}),
            ("read", {"path": f"{base}/keys/key"}),
            ("connect", {"port": port}),
        )
        assert answers == ["done", "SECRET", "done"], "servers have the network unless hosts are named"
        (held,) = ask(base, {"hosts": []}, ("connect", {"port": port}))
        assert held.startswith("no: ")


def a_repository(base: Path) -> Path:
    config = base / "work" / ".git" / "config"
    for name in ("objects", "hooks"):
        (config.parent / name).mkdir(parents=True)
    (config.parent / "HEAD").write_text("ref: refs/heads/main\n")
    config.write_text("[core]\n\tbare = false\n")
    return config


def test_a_server_reads_a_repository_and_writes_it_where_its_entry_names_it(base: Path) -> None:
    config = a_repository(base)
    calls = ("write", {"path": f"{config.parent}/new"}), ("read", {"path": str(config)})
    held, read = ask(base, {}, *calls)
    assert held.startswith("no: ")
    assert "bare" in read
    assert ask(base, {"paths": [str(config.parent)]}, *calls)[0] == "done"


def test_what_the_user_sets_in_git_while_a_server_runs_stays(base: Path) -> None:
    config = a_repository(base)

    async def main() -> None:
        place = str(base / "work")
        server = {"command": sys.executable, "args": [f"{place}/server.py"], "cwd": place}
        entries = {"mcpServers": {"s": server}}
        async with McpServers.from_json(entries, sandbox=Sandbox(base / "work")) as opened:
            (tool,) = [tool for tool in await opened.tools() if tool.name == "mcp__s__read"]
            await perform(tool, {"path": str(config)})
            config.write_text("[core]\n\tfsmonitor = /usr/bin/my-monitor\n")
            (config.parent / "hooks" / "pre-commit").write_text("#!/bin/sh\nmake lint\n")

    asyncio.run(main())
    assert "my-monitor" in config.read_text()
    assert [path.name for path in (config.parent / "hooks").iterdir()] == ["pre-commit"]


def test_an_entry_can_take_a_server_out(base: Path) -> None:
    answers = ask(base, {"sandbox": False}, ("write", {"path": f"{base}/outside/new"}))
    assert answers == ["done"]


def test_functions_and_plugins_run_in_this_process_and_not_in_the_sandbox() -> None:
    def where() -> int:
        """The process."""
        return os.getpid()

    tool = as_tool(where)
    assert tool.sandbox is None, "nobody is told that it is held"
    assert asyncio.run(run_tool(tool)).output == os.getpid()
