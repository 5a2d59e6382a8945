"""models, health, embed, sessions and MCP servers, as commands: against emulated providers and real files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here, Home
from interop.session_samples import claude_code
from segue.cli.commands.sessions import session_line
from segue.cli.display.turn_summary import dollars, short, summary_line, turn_line
from segue.cli.exit_codes import Exit
from segue.conversation.usage import Usage
from segue.emulators.model.model_reply import Call
from segue.sessions.stores.store import SessionInfo


@pytest.mark.requirement("Scenario: Model Discovery")
def test_models_of_one_provider_and_of_all_that_are_set_up(cloud: Cloud, asked: Here) -> None:
    one = asked("models", "anthropic")
    assert one.code == Exit.OK
    assert all(line.startswith("anthropic/") for line in one.out.splitlines())
    everyone = asked("models")
    assert {line.partition("/")[0] for line in everyone.out.splitlines()} == {"openai", "anthropic"}
    listed = json.loads(asked("models", "anthropic", "--json").out)
    assert listed[0]["provider"] == "anthropic"
    assert asked("models", "nonsense").code == Exit.USAGE


def test_a_provider_that_fails_does_not_hide_the_others(cloud: Cloud, asked: Here) -> None:
    cloud.fail(kind="status", status=401, provider="openai")
    told = asked("models")
    assert told.code == Exit.OK
    assert "anthropic/" in told.out
    assert "segue:" in told.err


def test_a_model_can_be_shown_fetched_and_removed(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cloud.home.here(monkeypatch, OLLAMA_HOST=cloud.served.url("ollama"))
    pulled = here("models", "pull", "ollama/llama3.2:1b")
    assert pulled.code == Exit.OK, pulled.err
    assert pulled.out == ""
    assert "ollama/llama3.2:1b. Use it: segue -m ollama/llama3.2:1b" in pulled.err
    names = [line.split()[0] for line in here("models", "ollama").out.splitlines()]
    assert "ollama/llama3.2:1b" in names
    shown = json.loads(here("models", "show", "ollama/llama3.2:1b", "--json").out)
    assert shown["id"] == "llama3.2:1b"
    assert here("models", "rm", "ollama:llama3.2:1b").code == Exit.OK
    assert "llama3.2:1b" not in here("models", "ollama").out


def test_a_model_that_is_not_there_is_told(cloud: Cloud, asked: Here) -> None:
    told = asked("models", "show", "openai/gpt-4.1-mni")
    assert told.code in (Exit.USAGE, Exit.INPUT)
    assert told.out == ""


@pytest.mark.requirement("Scenario: Health Check")
def test_health_asks_everybody_side_by_side(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cloud.home.here(monkeypatch, OLLAMA_HOST=cloud.served.url("ollama"))
    told = here("health")
    assert told.code == Exit.OK, told.out
    assert {line.split()[0] for line in told.out.splitlines()} == {"openai", "anthropic", "ollama"}
    cloud.fail(kind="status", status=401, provider="openai")
    told = here("health", "--json")
    assert told.code == Exit.FINDINGS
    states = {health["provider"]: health for health in json.loads(told.out)}
    assert states["openai"]["status"] == "unhealthy"
    assert states["openai"]["advice"]
    assert states["anthropic"]["status"] == "healthy"


def test_a_provider_that_lacks_a_setting_leaves_the_others_in_the_list(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cloud.home.here(
        monkeypatch, ANTHROPIC_AWS_API_KEY="any", ANTHROPIC_AWS_BASE_URL="http://127.0.0.1:9"
    )
    told = here("health")
    assert told.code == Exit.FINDINGS
    assert "openai      healthy" in told.out
    assert "Claude Platform on AWS needs a workspace." in told.out
    assert "ANTHROPIC_AWS_WORKSPACE_ID" in told.out
    assert "ANTHROPIC_AWS_BASE_URL" not in told.out  # it is set, and the workspace is sent in a header
    told = here("models")
    assert told.code == Exit.OK
    assert "openai/gpt-4.1" in told.out
    assert "Claude Platform on AWS needs a workspace." in told.err
    assert here("health", "nope").code == Exit.USAGE


def test_health_with_nobody_to_ask_is_exit_41(segue: Here) -> None:
    told = segue("health")
    # OLLAMA_HOST names a server that does not run: it was set up, so it is told.
    assert "ollama" in told.out
    assert told.code == Exit.FINDINGS
    segue.forget("OLLAMA_HOST")
    assert segue("health", "--set", "providers.ollama.base_url=http://127.0.0.1:9").code == Exit.FINDINGS


@pytest.mark.requirement("Scenario: Embedding Generation")
def test_embed_gives_one_vector_per_text_in_order(cloud: Cloud, asked: Here) -> None:
    told = asked("embed", "-m", "openai", "one", "two", "--dimensions", "8")
    vectors = [json.loads(line) for line in told.out.splitlines()]
    assert [len(vector) for vector in vectors] == [8, 8]
    piped = asked(
        "embed", "-m", "openai/text-embedding-3-small", "--json", "--dimensions", "8", stdin="one\n\ntwo\n"
    )
    assert json.loads(piped.out)["embeddings"] == vectors
    assert json.loads(piped.out)["dimensions"] == 8
    assert asked("embed", "text").code == Exit.USAGE
    assert asked("embed", "-m", "anthropic", "text").code == Exit.USAGE


def test_sessions_can_be_listed_shown_renamed_exported_and_removed(cloud: Cloud, asked: Here) -> None:
    assert "There are no saved sessions" in asked("sessions").err
    cloud.reply(Call("list_dir", {}))
    asked("What is here?", "-T", "list_dir")
    (info,) = json.loads(asked("sessions", "list", "--json").out)
    assert "What is here?" in asked("sessions", "list", "here").out
    assert asked("sessions", "list", "elsewhere").out == ""
    page = asked("sessions", "show", info["id"][:6]).out
    assert "## User" in page
    assert "**list_dir**" in page
    assert asked("sessions", "rename", info["id"], "first look").code == Exit.OK
    assert asked("sessions", "show", "first look").out.startswith("# first look")
    document = json.loads(asked("sessions", "export", "first look").out)
    assert document["segue"] == "conversation"
    assert asked("sessions", "export", info["id"], "-o", "page.md", "--format", "markdown").code == Exit.OK
    assert (cloud.home.project / "page.md").read_text() == asked("sessions", "show", info["id"]).out
    request = json.loads(asked("sessions", "export", info["id"], "--format", "gemini").out)
    assert request["contents"][0]["role"] == "user"
    assert asked("sessions", "export", info["id"], "--format", "klingon").code == Exit.USAGE
    assert asked("sessions", "rm", info["id"]).code == Exit.OK
    assert asked("sessions", "rm", info["id"]).code == Exit.USAGE


def test_an_exported_session_can_be_taken_in_again_and_goes_on(cloud: Cloud, asked: Here) -> None:
    asked("My name is Ada.")
    (info,) = json.loads(asked("sessions", "list", "--json").out)
    asked("sessions", "export", info["id"], "-o", "ada.json")
    taken = asked("sessions", "import", "ada.json")
    assert taken.code == Exit.OK
    told = asked("-r", taken.out.strip(), "Who am I?", "-m", "anthropic/claude-sonnet-4-6")
    assert told.code == Exit.OK, told.err
    assert "Ada" in json.dumps(cloud.bodies()[-1])


def test_a_session_of_another_program_can_be_taken_in(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / "claude.jsonl").write_bytes(claude_code())
    taken = asked("sessions", "import", "claude.jsonl", "--title", "from elsewhere")
    assert taken.code == Exit.OK, taken.err
    assert asked("-r", "from elsewhere", "go on", "-m", "openai/gpt-4.1").code == Exit.OK
    assert cloud.emulator.log[-1].verdict == "accepted"


@pytest.mark.parametrize("keep", ["sqlite", "jsonl"])
def test_sessions_are_kept_where_the_settings_say(
    cloud: Cloud, asked: Here, keep: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    cloud.home.configure(f'[sessions]\nkeep = "{keep}"\ndirectory = "{folder}"\n')
    asked("hello")
    assert list(folder.rglob("*"))
    assert len(json.loads(asked("sessions", "list", "--json").out)) == 1
    assert asked("-c", "more").code == Exit.OK


SERVER = """
from mcp.server import MCPServer
server = MCPServer("test")
@server.tool()
def double(n: int) -> int:
    "Twice a number."
    return 2 * n
server.run("stdio")
"""


def test_servers_of_a_project_are_used_once_they_are_trusted(
    cloud: Cloud, asked: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.cli.runtime.PATIENCE_SECONDS", 0.0)
    project = cloud.home.project
    (project / "server.py").write_text(SERVER)
    servers = {
        "mcpServers": {"maths": {"command": sys.executable, "args": ["server.py"], "cwd": str(project)}}
    }
    (project / ".mcp.json").write_text(json.dumps(servers))
    for words in (["hi"], ["hi", "-T", "list_dir", "--json"]):
        assert "not trusted" in asked(*words).err
    assert "not trusted" not in asked("hi", "--set", "mcp.project_file=false").err
    assert "mcp__maths__double" not in json.dumps(cloud.bodies()[-1])
    assert asked("trust").code == Exit.OK
    cloud.emulator.reset()
    cloud.reply(Call("mcp__maths__double", {"n": 21}))
    told = asked("double 21", "--allowed-tools", "mcp__maths__*")
    assert told.code == Exit.OK, told.err
    assert "42" in told.err
    assert "Waiting for MCP servers: maths" in told.err
    cloud.emulator.reset()
    asked("hi", "--bare")
    assert "tools" not in cloud.bodies()[-1]


def test_a_server_that_does_not_start_is_told_and_the_answer_comes_all_the_same(
    cloud: Cloud, asked: Here
) -> None:
    cloud.home.configure('[mcp.servers.broken]\ncommand = "no-such-program-anywhere"\n')
    told = asked("hi")
    assert told.code == Exit.OK
    assert "MCP server broken" in told.err


@pytest.mark.parametrize(("mode", "lines"), [("twins", 1), ("shapes", 1), ("words", 0), ("json", 0)])
def test_a_hostile_server_costs_one_line_and_not_the_answer(cloud: Cloud, mode: str, lines: int) -> None:
    server = Path(__file__).parents[2] / "tools" / "hostile_mcp_server.py"
    arguments = json.dumps([str(server), mode])
    cloud.home.configure(f"[mcp.servers.bad]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n")
    cloud.reply("Good day.")
    told = cloud.home.run("hi")
    assert (told.code, told.out) == (Exit.OK, "Good day.\n"), told.err
    assert "Traceback" not in told.err
    # A server that is slow to start is named while it is waited for: on a busy machine, any.
    reported = [line for line in told.err.splitlines() if "MCP server" in line and "Waiting" not in line]
    assert len(reported) == lines


def test_the_status_line_says_what_is_known_and_no_more() -> None:
    usage = Usage(input_tokens=4200, output_tokens=310, cached_tokens=3900)
    line = summary_line("openai/gpt-5", usage, cost=0.021, repairs=2)
    assert line == "openai/gpt-5 · 4.2k in (3.9k cached) 310 out · $0.02 · 2 repairs"
    assert summary_line("a/b", Usage()) == "a/b"
    estimated = Usage(4200, 310, estimated=True)
    assert summary_line("a/b", estimated) == "a/b · 4.2k in 310 out (estimate)"
    assert turn_line(6, estimated, cost=0.02) == "6 s · 4.2k in, 310 out (estimate) · $0.02"
    assert summary_line("a/b", Usage(output_tokens=5), repairs=1) == "a/b · 5 out · 1 repair"
    assert [short(n) for n in (999, 1000, 99_949, 123_456, 999_499, 999_500, 2_500_000)] == [
        "999", "1.0k", "99.9k", "123k", "999k", "1.0M", "2.5M",
    ]  # fmt: skip
    assert [dollars(n) for n in (0, 1.5, 0.01, 0.004, 0.00001)] == [
        "$0.00",
        "$1.50",
        "$0.01",
        "$0.0040",
        "<$0.0001",
    ]


def test_a_session_is_told_in_one_line() -> None:
    info = SessionInfo(id="abc", model="a/b", turns=1, updated=1000.0, first_words="first\nwords \x1b[2J")
    line = session_line(info, now=1000.0 + 7200)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "2 h" in line
    assert "1 turn" in line


def test_help_of_every_command_is_told(home: Home, segue: Here) -> None:
    from segue.cli.command_table import COMMANDS

    for name in COMMANDS:
        told = segue(name, "--help")
        assert told.code == Exit.OK
        assert f"segue {name}" in told.out
