"""MCP servers that others wrote, of both eras of the protocol, are understood: tools, errors, time, cancels, deaths."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from segue.conversation.blocks import ToolCall
from segue.errors import SegueError
from segue.tools.arguments import problem_with
from segue.tools.definition import Tool
from segue.tools.mcp.servers import McpServers
from tools.tool_runs import perform

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SEGUE_SECOND_OPINIONS") != "1",
        reason="fetches servers from the package indexes; asked for by SEGUE_SECOND_OPINIONS=1, as `make opinions` does",
    ),
    pytest.mark.timeout(600),
]
PYPI = ("mcp-server-time", "mcp-server-git")
NPM = ("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-everything")
with_node = pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node")


@pytest.fixture(scope="module")
def from_pypi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of programs."""
    home = tmp_path_factory.mktemp("pypi")
    subprocess.run([sys.executable, "-m", "venv", home], check=True)  # noqa: S603
    subprocess.run([home / "bin" / "pip", "install", "-q", *PYPI], check=True)  # noqa: S603
    return home / "bin"


@pytest.fixture(scope="module")
def from_npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of programs."""
    home = tmp_path_factory.mktemp("npm")
    subprocess.run(  # noqa: S603
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, *NPM],  # noqa: S607
        check=True,
    )
    return home / "node_modules" / ".bin"


def with_tools(
    server: dict[str, Any], story: Callable[[dict[str, Tool], McpServers], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with McpServers.from_json({"mcpServers": {"s": server}}) as servers:
            tools = {tool.name.removeprefix("mcp__s__"): tool for tool in await servers.tools()}
            assert servers.problems == {}
            await story(tools, servers)

    asyncio.run(main())


def children() -> set[int]:
    """The processes that this one has started."""
    return {
        int(stat.split()[0])
        for path in Path("/proc").glob("[0-9]*/stat")
        if (stat := _read(path)) and int(stat.rpartition(")")[2].split()[1]) == os.getpid()
    }


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def test_the_time_server_tells_data_and_errors(from_pypi: Path) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        now = tools["get_current_time"]
        assert "Europe/Paris" in str((await perform(now, {"timezone": "Europe/Paris"})).value)
        assert (await perform(now, {"timezone": "Nowhere/Town"})).error
        assert "timezone" in problem_with(ToolCall("c", now.name, {}), now.spec)

    with_tools({"command": str(from_pypi / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}, story)


def test_the_git_server_changes_a_repository_and_comes_back_after_it_was_killed(
    from_pypi: Path, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # noqa: S603, S607
    for name, value in (("user.name", "Somebody"), ("user.email", "somebody@example.org")):
        subprocess.run(["git", "-C", tmp_path, "config", name, value], check=True)  # noqa: S603, S607
    (tmp_path / "a.txt").write_text("a")
    repository = {"repo_path": str(tmp_path)}

    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert "a.txt" in (await perform(tools["git_status"], repository)).value
        await perform(tools["git_add"], repository | {"files": ["a.txt"]})
        await perform(tools["git_commit"], repository | {"message": "A first file"})
        for child in children():
            os.kill(child, signal.SIGKILL)
        await asyncio.sleep(0.3)
        assert "A first file" in (await perform(tools["git_log"], repository)).value
        assert (await perform(tools["git_show"], repository | {"revision": "nothing"})).error

    with_tools({"command": str(from_pypi / "mcp-server-git")}, story)


@with_node
def test_the_filesystem_server_refuses_what_is_outside(from_npm: Path, tmp_path: Path) -> None:
    root = tmp_path.resolve()

    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        await perform(tools["write_file"], {"path": f"{root}/a.txt", "content": "hello"})
        assert (root / "a.txt").read_text() == "hello"
        assert (await perform(tools["read_text_file"], {"path": f"{root}/a.txt"})).value == "hello"
        denied = await perform(tools["read_text_file"], {"path": "/etc/passwd"})
        assert denied.error is not None
        assert "denied" in denied.error.lower()

    with_tools({"command": str(from_npm / "mcp-server-filesystem"), "args": [str(root)]}, story)


async def _everything(tools: dict[str, Tool], servers: McpServers) -> None:
    assert "hello" in (await perform(tools["echo"], {"message": "hello"})).value
    image = await perform(tools["get-tiny-image"], {})
    assert image.media[0].mime == "image/png"
    links = (await perform(tools["get-resource-links"], {"count": 2})).value
    assert links.count("<") >= 2
    assert "New York" in str(tools["get-structured-content"].spec.parameters)
    assert "temperature" in str(
        (await perform(tools["get-structured-content"], {"location": "New York"})).value
    )
    assert (await perform(tools["get-sum"], {"a": "x", "b": 1})).error
    told: list[str] = []
    long = tools["trigger-long-running-operation"]
    await perform(long, {"duration": 1, "steps": 4}, told)
    assert [words.split()[0] for words in told] == ["1/4", "2/4", "3/4", "4/4"]
    began = time.monotonic()
    late = await perform(long, {"duration": 30, "steps": 3})
    assert "did not answer within 3 seconds" in str(late.error)
    call = asyncio.ensure_future(perform(long, {"duration": 30, "steps": 3}))
    await asyncio.sleep(0.5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < 10
    assert "again" in (await perform(tools["echo"], {"message": "again"})).value


@with_node
def test_the_server_of_everything_is_understood_as_a_child(from_npm: Path) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        await _everything(tools, servers)
        call = asyncio.ensure_future(
            perform(tools["trigger-long-running-operation"], {"duration": 30, "steps": 3})
        )
        await asyncio.sleep(0.5)
        for child in children():
            os.kill(child, signal.SIGKILL)
        with pytest.raises(SegueError, match="was lost while the call ran"):
            await call
        assert "back" in (await perform(tools["echo"], {"message": "back"})).value

    with_tools({"command": str(from_npm / "mcp-server-everything"), "timeout": 3000}, story)


@contextmanager
def on_a_port(program: Path, port: int) -> Iterator[None]:
    process = subprocess.Popen(  # noqa: S603
        [program, "streamableHttp"],
        env=os.environ | {"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


@with_node
def test_the_server_of_everything_is_understood_at_an_address_and_after_it_was_started_anew(
    from_npm: Path,
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    program = from_npm / "mcp-server-everything"
    first = on_a_port(program, port)
    first.__enter__()

    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        await _everything(tools, servers)
        first.__exit__(None, None, None)
        with on_a_port(program, port):
            # The new server does not know the session of the old one, and does not say so in the way of the protocol.
            assert "refused" in str((await perform(tools["echo"], {"message": "lost"})).error)
            assert "back" in (await perform(tools["echo"], {"message": "back"})).value

    try:
        with_tools({"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "timeout": 3000}, story)
    finally:
        first.__exit__(None, None, None)
