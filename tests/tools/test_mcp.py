"""Tools of real MCP servers: child processes over stdio, and servers on a port of this machine."""

from __future__ import annotations

import asyncio
import json
import os
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
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import SegueError, TransportError, UsageError
from segue.tools.definition import Output, Tool
from segue.tools.mcp.config import HttpAddress, StdioAddress, read_servers
from segue.tools.mcp.connection import McpTool, ToolList, ToolListCache
from segue.tools.mcp.questions import ServerQuestion
from segue.tools.mcp.servers import McpServers, mcp_tool_name
from tools.tool_runs import perform

SERVER = str(Path(__file__).with_name("mcp_server.py"))
HOSTILE = str(Path(__file__).with_name("hostile_mcp_server.py"))
PAGED = str(Path(__file__).with_name("paged_mcp_server.py"))
pytestmark = pytest.mark.timeout(60)


def child(*args: str, **fields: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": list(args), **fields}


def with_tools(
    servers: dict[str, Any],
    story: Callable[[dict[str, Tool], McpServers], Awaitable[None]],
    outputs: Path | None = None,
) -> None:
    async def main() -> None:
        async with McpServers.from_json({"mcpServers": servers}, outputs=outputs) as opened:
            await story({tool.name: tool for tool in await opened.tools()}, opened)

    asyncio.run(main())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def served(port: int) -> Iterator[str]:
    """The server on a port, killed at the end."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, SERVER, "http", str(port)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def _every_kind_of_answer(tools: dict[str, Tool], servers: McpServers) -> None:
    assert servers.problems == {}
    add = tools["mcp__s__add"]
    assert add.spec.description == "Add two numbers."
    assert add.spec.parameters is not None
    assert set(add.spec.parameters["properties"]) == {"a", "b"}
    assert (await perform(add, {"a": 1, "b": 2})).value == "3"
    assert "valid integer" in str((await perform(add, {"a": "one", "b": 2})).error)
    failed = await perform(tools["mcp__s__fail"], {})
    assert failed.error is not None
    assert "fail" in failed.error
    picture = await perform(tools["mcp__s__picture"], {})
    assert (picture.value, picture.media[0].kind, picture.media[0].mime) == (
        "a picture",
        "image",
        "image/png",
    )
    mixed = await perform(tools["mcp__s__mixed"], {})
    assert mixed.value == (
        "text\na.txt <file:///a.txt> text/plain\ninside\n"
        '<file:///d.bin> application/octet-stream, 3 bytes\n\n{"data":[1,2]}'
    )
    assert [(media.kind, media.name) for media in mixed.media] == [("audio", ""), ("document", "c.pdf")]
    long = await perform(tools["mcp__s__long"], {})
    assert len(long.value) < 31_000
    assert "omitted" in long.value
    unknown = await servers._connections[0].call("no_such_tool", {}, _context())
    assert "no_such_tool" in str(unknown.error)
    told: list[str] = []
    slow = tools["mcp__s__slow"]
    assert (await perform(slow, {"seconds": 0.1, "note": os.devnull}, told)).value == "done"
    assert told[0] == "1/10 working"
    assert len(told) == 10


def _context() -> Any:
    from tools.tool_runs import a_context

    return a_context()


def test_a_child_answers_in_every_way_and_gets_only_the_environment_it_is_given(tmp_path: Path) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert (tools["mcp__s__add"].effect, tools["mcp__s__fail"].effect) == ("read", "other")
        await _every_kind_of_answer(tools, servers)
        names = (await perform(tools["mcp__s__environment"], {})).value.split("\n")
        assert "GIVEN" in names
        assert set(names) <= {
            "GIVEN",
            "HOME",
            "LC_CTYPE",
            "LOGNAME",
            "PATH",
            "SHELL",
            "TERM",
            "TMPDIR",
            "USER",
        }

    with_tools({"s": child(SERVER, "stdio", env={"GIVEN": "1"}, trust=True)}, story, tmp_path)


def test_a_server_at_an_address_answers_in_every_way(tmp_path: Path) -> None:
    with served(free_port()) as url:
        with_tools(
            {"s": {"type": "http", "url": url, "headers": {"X-Mine": "1"}}}, _every_kind_of_answer, tmp_path
        )


async def _until(path: Path, words: str) -> None:
    async with asyncio.timeout(10):
        while not path.exists() or path.read_text() != words:
            await asyncio.sleep(0.02)


async def _stopping(tools: dict[str, Tool], note: Path) -> None:
    slow, add = tools["mcp__s__slow"], tools["mcp__s__add"]
    late = await perform(slow, {"seconds": 30, "note": str(note)})
    assert late.error == "The tool did not answer within 2 seconds and was cancelled."
    await _until(note, "cancelled")
    note.unlink()
    call = asyncio.ensure_future(perform(slow, {"seconds": 30, "note": str(note)}))
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _until(note, "cancelled")
    assert (await perform(add, {"a": 1, "b": 2})).value == "3"


def test_a_child_hears_of_timeouts_and_cancels_and_goes_on(tmp_path: Path) -> None:
    with_tools(
        {"s": child(SERVER, "stdio", timeout=2000, paths=[str(tmp_path)])},
        lambda tools, _: _stopping(tools, tmp_path / "note"),
        tmp_path,
    )


def test_a_server_at_an_address_hears_of_timeouts_and_cancels_and_goes_on(tmp_path: Path) -> None:
    with served(free_port()) as url:
        with_tools(
            {"s": {"url": url, "timeout": 2000}},
            lambda tools, _: _stopping(tools, tmp_path / "note"),
            tmp_path,
        )


def test_a_child_that_dies_is_started_again_for_the_next_call_and_no_call_runs_twice(tmp_path: Path) -> None:
    async def story(tools: dict[str, Tool], _servers: McpServers) -> None:
        first = int((await perform(tools["mcp__s__process"], {})).value)
        with pytest.raises(TransportError, match="was lost while the call ran, which may have had effects"):
            await perform(tools["mcp__s__count"], {"path": str(tmp_path / "ran")})
        second = int((await perform(tools["mcp__s__process"], {})).value)
        assert (tmp_path / "ran").read_text() == "ran\n"
        os.kill(second, signal.SIGKILL)
        await asyncio.sleep(0.2)
        # It died while nobody was looking: the next call is the first to notice, and it runs.
        pids = await asyncio.gather(*(perform(tools["mcp__s__process"], {}) for _ in range(3)))
        third = {int(output.value) for output in pids}
        assert len(third | {first, second}) == 3

    # Outside of the sandbox, where the numbers of processes are those that a test can kill.
    with_tools({"s": child(SERVER, "stdio", sandbox=False)}, story, tmp_path)


def test_a_server_at_an_address_may_go_and_come_back(tmp_path: Path) -> None:
    port = free_port()
    process = served(port)
    url = process.__enter__()

    async def story(tools: dict[str, Tool], _servers: McpServers) -> None:
        add = tools["mcp__s__add"]
        assert (await perform(add, {"a": 1, "b": 2})).value == "3"
        process.__exit__(None, None, None)
        with pytest.raises(SegueError, match='"s"'):
            await perform(add, {"a": 1, "b": 2})
        with served(port):
            assert (await perform(add, {"a": 2, "b": 2})).value == "4"

    with_tools({"s": {"type": "http", "url": url}}, story, tmp_path)


def test_what_is_broken_is_told_and_takes_nobody_else_down(tmp_path: Path) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert {name.split("__")[1] for name in tools} == {"good"}
        # Nobody said that it is trusted, so its word that it only reads counts for nothing.
        assert tools["mcp__good__add"].effect == "other"
        told = {name: str(problem) for name, problem in servers.problems.items()}
        assert set(told) == {"missing", "broken", "silent", "gone", "unset", "empty"}
        assert "No such file" in told["missing"]
        assert "It wrote: cannot start with [redacted]: no disk" in told["broken"]
        assert "did not answer within 1 seconds" in told["silent"]
        assert "connection attempts failed" in told["gone"]
        assert "SEGUE_NOT_SET" in told["unset"]
        assert not any("ExceptionGroup" in words or "sesame" in words for words in told.values())
        assert (await perform(tools["mcp__good__add"], {"a": 1, "b": 2})).value == "3"

    with_tools(
        {
            "good": child(SERVER, "stdio"),
            "missing": {"command": str(tmp_path / "nothing")},
            "broken": child(SERVER, "broken", env={"SECRET_OF_MINE": "open sesame"}),
            "silent": child(SERVER, "silent", startup_timeout_sec=1),
            "gone": {"type": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"},
            "unset": {"command": "${SEGUE_NOT_SET}/bin/server"},
            "empty": {},
            "off": {"command": "never", "disabled": True},
        },
        story,
        tmp_path,
    )


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("twins", 'two tools with the name "a"'),
        ("shapes", "something that the protocol does not know"),
        ("nothing", "something that the protocol does not know"),
        ("surrogates", "did not answer within 2 seconds"),
        ("flood", "did not answer within 2 seconds"),
    ],
)
def test_a_hostile_server_costs_only_itself(mode: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert {name.split("__")[1] for name in tools} == {"good"}
        assert set(servers.problems) == {"bad"}
        problem = str(servers.problems["bad"])
        assert why in problem
        assert len(problem.splitlines()) == 1
        assert (await perform(tools["mcp__good__one"], {})).error is not None

    with_tools({"bad": child(HOSTILE, mode, startup_timeout_sec=2), "good": child(PAGED, "pages")}, story)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("mode", ["words", "bytes", "json", "deep", "surrogate", "number", "long", "again"])
def test_junk_between_messages_is_passed_over(mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert servers.problems == {}
        assert list(tools) == ["mcp__s__a"]
        assert (await perform(tools["mcp__s__a"], {})).value == "fine"
        assert len(await servers.tools()) == 1

    with_tools({"s": child(HOSTILE, mode)}, story)
    assert capfd.readouterr().err == ""


def test_a_question_of_a_server_is_declined() -> None:
    async def story(tools: dict[str, Tool], _servers: McpServers) -> None:
        assert json.loads((await perform(tools["mcp__s__a"], {})).value) == {"action": "decline"}

    with_tools({"s": child(HOSTILE, "asks")}, story)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"city": "Oslo", "days": 2}, {"action": "accept", "content": {"city": "Oslo", "days": 2}}),
        (None, {"action": "decline"}),
        (RuntimeError("nobody is there"), {"action": "cancel"}),
    ],
)
def test_a_question_of_a_server_is_answered_by_the_user(answer: Any, expected: Any) -> None:
    asked: list[ServerQuestion] = []

    async def user(question: ServerQuestion) -> Any:
        asked.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        servers.ask = user
        assert json.loads((await perform(tools["mcp__s__a"], {})).value) == expected

    with_tools({"s": child(HOSTILE, "form")}, story)
    (question,) = asked
    assert (question.server, question.message) == ("s", "Which city?")
    assert [(field.name, field.kind, field.required) for field in question.fields] == [
        ("city", "text", True),
        ("days", "integer", False),
        ("unit", "choice", False),
        ("rain", "boolean", False),
    ]
    assert [
        field.read(text) for field, text in zip(question.fields, [" Oslo ", "2", "2", "yes"], strict=True)
    ] == [
        "Oslo",
        2,
        "F",
        True,
    ]
    assert [field.read("?") for field in question.fields[1:]] == [None] * 3


def test_a_page_that_a_server_names_is_opened_by_the_user_alone() -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        asked: list[ServerQuestion] = []

        async def user(question: ServerQuestion) -> dict[str, Any]:
            asked.append(question)
            return {}

        servers.ask = user
        assert json.loads((await perform(tools["mcp__s__a"], {})).value) == {"action": "accept"}
        assert asked[0].url == "https://example.org/x"

    with_tools({"s": child(HOSTILE, "page")}, story)


@pytest.mark.parametrize("mode", ["samples", "roots"])
def test_a_server_that_wants_a_model_or_folders_is_refused_and_goes_on(mode: str) -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        refused = json.loads((await perform(tools["mcp__s__a"], {})).value)
        assert refused["code"] < 0
        assert "not supported" in refused["message"]
        assert len(await servers.tools()) == 1

    with_tools({"s": child(HOSTILE, mode)}, story)


def test_two_servers_whose_tools_get_one_name_do_not_cost_the_first() -> None:
    async def story(tools: dict[str, Tool], servers: McpServers) -> None:
        assert list(tools) == ["mcp__x__a__a"]
        assert list(servers.offers) == ["x__a"]
        assert "another name" in str(servers.problems["x"])

    with_tools({"x__a": child(HOSTILE, "words"), "x": child(HOSTILE, "prefixed")}, story)


def test_servers_may_be_closed_while_they_are_connected_to() -> None:
    async def main() -> None:
        servers = McpServers.from_json({"mcpServers": {"s": child(SERVER, "silent", startup_timeout_sec=30)}})
        asked = asyncio.ensure_future(servers.tools())
        while servers._connections[0]._open is None:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await servers.close()
        assert await asked == ()
        assert set(servers.problems) == {"s"}
        assert time.monotonic() - began < 10

    asyncio.run(main())


def test_tools_are_listed_page_by_page_and_a_circle_ends() -> None:
    async def story(tools: dict[str, Tool], _servers: McpServers) -> None:
        assert [name for name in tools if "paged" in name] == [
            f"mcp__paged__{name}" for name in ("one", "two", "three", "four", "five")
        ]
        assert "mcp__circle__two" in tools

    with_tools({"paged": child(PAGED, "pages"), "circle": child(PAGED, "circle")}, story)


def test_nothing_is_imported_or_started_before_it_is_needed() -> None:
    program = (
        "import sys; from segue.tools.mcp.servers import McpServers; "
        "McpServers.from_json({'mcpServers': {'x': {'command': 'y'}}}); sys.exit('mcp' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603


ENVIRONMENT = {"TOKEN": "sesame", "HOME": "/home/me"}


@pytest.mark.parametrize(
    ("source", "address"),
    [
        (
            {"mcpServers": {"s": {"command": "npx", "args": ["-y", "x"], "env": {"A": "${TOKEN}", "N": 3}}}},
            StdioAddress(command="npx", args=("-y", "x"), env={"A": "sesame", "N": "3"}),
        ),
        (
            {
                "mcpServers": {
                    "s": {"command": "${HOME}/run", "args": ["${PORT:-80}", "${NONE:-}"], "cwd": "${HOME}"}
                }
            },
            StdioAddress(command="/home/me/run", args=("80", ""), cwd="/home/me"),
        ),
        (
            {
                "mcpServers": {
                    "s": {"type": "http", "url": "https://x/mcp", "headers": {"A": "Bearer ${TOKEN}"}}
                }
            },
            HttpAddress(url="https://x/mcp", headers={"A": "Bearer sesame"}),
        ),
        ({"mcpServers": {"s": {"httpUrl": "https://x/mcp"}}}, HttpAddress(url="https://x/mcp")),
        (
            {"mcpServers": {"s": {"type": "sse", "url": "https://x/sse"}}},
            HttpAddress(url="https://x/sse", is_old=True),
        ),
        (
            {
                "mcp": {
                    "s": {"type": "local", "command": ["bun", "x", "y"], "environment": {"A": "{env:TOKEN}"}}
                }
            },
            StdioAddress(command="bun", args=("x", "y"), env={"A": "sesame"}),
        ),
        (
            {"mcp": {"s": {"type": "remote", "url": "https://x", "enabled": True}}},
            HttpAddress(url="https://x"),
        ),
        ({"servers": {"s": {"type": "stdio", "command": "x"}}}, StdioAddress(command="x")),
    ],
)
def test_the_files_of_other_programs_are_read(
    source: dict[str, Any], address: StdioAddress | HttpAddress
) -> None:
    (server,), problems = read_servers(source, ENVIRONMENT)
    assert problems == {}
    assert server.address == address
    assert "sesame" not in repr(server)


def test_files_are_read_as_json_or_toml_and_a_bad_one_is_named(tmp_path: Path) -> None:
    toml = tmp_path / "config.toml"
    toml.write_text('[mcp_servers.s]\ncommand = "x"\ntool_timeout_sec = 5\nstartup_timeout_sec = 7\n')
    (server,), _ = read_servers(toml, {})
    assert (server.address, server.call_seconds, server.start_seconds) == (StdioAddress(command="x"), 5, 7)
    plain = tmp_path / ".mcp.json"
    plain.write_text('{"mcpServers": {"s": {"command": "x", "timeout": 1500}}}')
    assert read_servers(str(plain), {})[0][0].call_seconds == 1.5
    for text in ("{", "[]", '{"other": {}}', '{"mcpServers": 3}'):
        plain.write_text(text)
        with pytest.raises(UsageError, match="list of MCP servers") as raised:
            read_servers(plain, {})
        assert ".mcp.json" in raised.value.path
    with pytest.raises(UsageError):
        read_servers(tmp_path / "missing.json", {})


BAD_ENTRIES: list[Any] = [
    3,
    {},
    {"command": []},
    {"command": 3},
    {"command": "x", "args": "y"},
    {"command": "x", "args": [{}]},
    {"command": "x", "env": {"A": None}},
    {"url": 3},
    {"url": "x", "headers": "y"},
]


@pytest.mark.parametrize("entry", BAD_ENTRIES)
def test_a_badly_described_server_is_told_by_its_name(entry: Any) -> None:
    servers, problems = read_servers({"mcpServers": {"odd": entry, "fine": {"command": "x"}}}, {})
    assert [server.name for server in servers] == ["fine"]
    assert '"odd"' in str(problems["odd"])


_names = st.text(st.sampled_from("ab_-./ é\ud800"), min_size=1, max_size=80)


@given(_names, _names, _names, _names)
def test_names_are_legal_everywhere_and_stay_distinct(
    server: str, tool: str, server2: str, tool2: str
) -> None:
    first, second = mcp_tool_name(server, tool), mcp_tool_name(server2, tool2)
    assert len(first) <= 64
    assert first.isascii()
    assert first.replace("_", "").replace("-", "").isalnum() or first.strip("_-mcp") == ""
    if f"mcp__{server}__{tool}" != f"mcp__{server2}__{tool2}":
        assert first != second


def test_an_output_that_is_no_text_is_left_as_it_is() -> None:
    from mcp_types import CallToolResult, TextContent

    from segue.tools.mcp.connection import output_of_result

    assert output_of_result(CallToolResult(content=[], structured_content={"a": 1})) == Output({"a": 1})
    assert output_of_result(
        CallToolResult(content=[TextContent(text="[1]")], structured_content={"result": [1]})
    ) == (Output("[1]"))
    assert output_of_result(CallToolResult(content=[], is_error=True)).error


COUNTED = """
import sys
from pathlib import Path
from mcp.server import MCPServer

with Path({starts!r}).open("a") as starts:
    starts.write("started\\n")
server = MCPServer("counted", version={version!r})

@server.tool()
def {tool}(n: int) -> int:
    "Twice a number, for sk-test-secret-of-the-server."
    return 2 * n

server.run("stdio")
"""


def _counted(tmp_path: Path, version: str = "1", tool: str = "double") -> dict[str, Any]:
    """A server that counts its starts. Its file keeps its size and its time, as an installed package does."""
    file, starts = tmp_path / "counted.py", tmp_path / "starts"
    file.write_text(COUNTED.format(starts=str(starts), version=version, tool=tool))
    os.utime(file, (1, 1))
    key = {"API_KEY": "sk-test-secret-of-the-server"}
    return {"s": child(str(file), env=key, paths=[str(tmp_path)])}


def _starts(tmp_path: Path) -> int:
    file = tmp_path / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def _with_cache(
    servers: dict[str, Any], folder: Path, story: Callable[[dict[str, Tool], McpServers], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with McpServers.from_json({"mcpServers": servers}, cache=folder) as opened:
            await story({tool.name: tool for tool in await opened.tools()}, opened)

    asyncio.run(main())


def test_a_server_whose_tools_are_known_starts_when_one_is_called_and_a_new_version_is_asked_again(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"

    async def lists(tools: dict[str, Tool], servers: McpServers) -> None:
        assert tools["mcp__s__double"].spec.parameters is not None
        assert servers.offers == {"s": 1}

    async def calls(tools: dict[str, Tool], servers: McpServers) -> None:
        await lists(tools, servers)
        assert _starts(tmp_path) == 1
        assert servers.unstarted == {"s"}
        assert (await perform(tools["mcp__s__double"], {"n": 4})).value == "8"
        assert servers.unstarted == set()
        await servers.reload()

    async def calls_what_is_gone(tools: dict[str, Tool], _servers: McpServers) -> None:
        output = await perform(tools["mcp__s__double"], {"n": 4})
        assert output.error == "The MCP server s was changed and has no tool double any more."

    async def knows(tools: dict[str, Tool], _servers: McpServers) -> None:
        assert set(tools) == {"mcp__s__triple"}

    _with_cache(_counted(tmp_path), cache, lists)
    _with_cache(_counted(tmp_path), cache, calls)
    assert _starts(tmp_path) == 2
    (kept,) = cache.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "Twice a number" in kept.read_text()
    assert "sk-test-secret" not in kept.read_text()
    _with_cache(_counted(tmp_path, "2", "triple"), cache, calls_what_is_gone)
    _with_cache(_counted(tmp_path, "2", "triple"), cache, knows)
    assert _starts(tmp_path) == 3


def _kept_list(*servers: dict[str, Any], folder: Path) -> list[bool]:
    """Whether each of these has a list, if only the first one's is kept."""
    configs = [read_servers({"mcpServers": {"s": server}}, {})[0][0] for server in servers]
    cache = ToolListCache(folder)
    cache.write(configs[0], ToolList(tools=(McpTool(name="double"),), version="counted 1", at=time.time()))
    return [cache.read(config) is not None for config in configs]


def test_a_list_is_kept_for_one_configuration_and_one_state_of_its_files(tmp_path: Path) -> None:
    own = _counted(tmp_path)["s"]
    others = [{**own, "env": {"API_KEY": "another"}}, {**own, "args": []}, {"url": "http://127.0.0.1:9/"}]
    assert _kept_list(own, *others, folder=tmp_path / "a") == [True, False, False, False]
    server = read_servers({"mcpServers": {"s": own}}, {})[0][0]
    cache = ToolListCache(tmp_path / "a")
    (kept,) = (tmp_path / "a").iterdir()
    text = kept.read_text()
    for damaged in ("", "[1]", "\x00", text.replace('"at":', '"at":9'), text.replace('"at":1', '"at":0')):
        kept.write_text(damaged)
        assert cache.read(server) is None
    kept.write_text(text)
    assert cache.read(server) is not None
    os.utime(tmp_path / "counted.py", (2, 2))
    assert cache.read(server) is None
    assert ToolListCache(None).read(server) is None


def test_a_server_that_no_longer_starts_is_asked_the_next_time(tmp_path: Path) -> None:
    servers, cache = _counted(tmp_path), tmp_path / "cache"
    (tmp_path / "counted.py").write_text("raise SystemExit(1)")
    _kept_list(servers["s"], folder=cache)

    async def story(tools: dict[str, Tool], opened: McpServers) -> None:
        with pytest.raises(TransportError):
            await perform(tools["mcp__s__double"], {"n": 4})
        assert "s" in opened.problems
        assert list(cache.iterdir()) == []

    _with_cache(servers, cache, story)
