"""Tools and approvals of a session that is resumed: restored, asked about once, or reported as not restored."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit
from segue.cli.tool_loader import load_tools
from segue.cli.tool_memory import restore
from segue.config.layers import load_settings
from segue.config.session_stores import open_store
from segue.config.trust import approve, is_approved
from segue.emulators.model.model_reply import Call
from segue.sessions.entries import AllowedCall, SettingsChanged, ToolGrant
from segue.sessions.journal import Journal
from segue.tools.definition import Tool

MARK = """
from pathlib import Path
with Path("loaded").open("a") as loaded:
    loaded.write("x")

def note(text: str) -> str:
    "Write a note."
    Path("note.txt").write_text(text)
    return "written"
"""
ENTER = "\r"


def offered(cloud: Cloud) -> list[str]:
    """The tools of the last request."""
    tools = cloud.bodies()[-1].get("tools", [])
    return [(tool if "name" in tool else tool["function"])["name"] for tool in tools]


def results(cloud: Cloud) -> str:
    return json.dumps(cloud.bodies()[-1]["messages"])


def session_of(asked: Here) -> str:
    return str(json.loads(asked("sessions", "list", "--json").out)[0]["id"])


def grant(session: str, given: ToolGrant) -> None:
    """Write into the journal, as a session that came from elsewhere may have it."""

    async def write() -> None:
        store = open_store(load_settings().config)
        journal = await Journal.resume(store, session)
        await journal.append(SettingsChanged(tools=given))
        await journal.close()
        await store.close()

    asyncio.run(write())


@pytest.fixture
def project(cloud: Cloud) -> Path:
    (cloud.home.project / "mine.py").write_text(MARK)
    return cloud.home.project


def loads(project: Path) -> int:
    return len((project / "loaded").read_text()) if (project / "loaded").exists() else 0


def test_a_resumed_session_has_its_tools_and_what_was_allowed(
    cloud: Cloud, asked: Here, project: Path
) -> None:
    model = ("-m", "anthropic/claude-sonnet-4-6")
    asked(
        "hello", *model, "-T", "read_file", "-T", "mine.py:note", "--allowed-tools", "run_shell(git status)"
    )
    cloud.reply(Call("note", {"text": "again"}))
    again = asked("-c", "write a note")
    assert again.code == Exit.OK, again.err
    assert "Tools of this session: read_file, note" in again.err
    assert (project / "note.txt").read_text() == "again"
    assert offered(cloud) == ["read_file", "note"]
    assert "Not restored" not in again.err
    # Flags count more than what the session had.
    asked("-c", "more", "-T", "list_dir")
    assert offered(cloud) == ["list_dir"]
    asked("-c", "more")
    assert offered(cloud) == ["list_dir"]
    asked("-c", "more", "-T", "none")
    assert offered(cloud) == []


def test_a_file_of_tools_that_changed_runs_nothing_and_is_reported(
    cloud: Cloud, asked: Here, project: Path
) -> None:
    asked("hello", "-T", "mine.py:note")
    before = loads(project)
    (project / "mine.py").write_text(MARK.replace('"written"', '"written by somebody else"'))
    again = asked("-c", "more", "--json")
    assert again.code == Exit.OK
    assert loads(project) == before
    (line,) = json.loads(again.out)["not_restored"]
    assert "the function note of" in line
    assert "not approved in this folder as it is now" in line
    assert "To use it: -T " in line
    assert f"Not restored: {line}" in again.err
    asked("hello again")
    (project / "mine.py").unlink()
    grant(session_of(asked), ToolGrant(tools=(f"{project}/mine.py:note", "no_such_tool")))
    gone = asked("-c", "more").err
    assert "mine.py:note: the file is gone" in gone
    assert 'There is no tool "no_such_tool"' in gone


def test_what_was_approved_in_one_folder_is_not_in_another(
    cloud: Cloud, asked: Here, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked("hello", "-T", "mine.py:note", "--allowed-tools", "run_shell(git *)")
    session, before = session_of(asked), loads(project)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    there = asked("-r", session, "more").err
    assert loads(project) == before
    assert "Not restored: the function note" in there
    assert "Not restored: without a question: run_shell(git *)" in there
    assert offered(cloud) == []


def test_a_mode_that_approves_everything_is_not_restored_without_a_question(
    cloud: Cloud, asked: Here, project: Path
) -> None:
    asked("hello", "-T", "write_file", "-y")
    cloud.reply(Call("write_file", {"path": "a.txt", "content": "x"}))
    again = asked("-c", "write")
    assert "Not restored: approval mode yolo" in again.err
    assert "To use it: --approval-mode yolo" in again.err
    assert not (project / "a.txt").exists()
    assert "needs the approval of the user" in results(cloud)
    # A careful mode is no risk.
    asked("hello", "-T", "read_file", "--approval-mode", "plan")
    cloud.reply(Call("write_file", {"path": "a.txt", "content": "x"}))
    assert "Not restored" not in asked("-c", "write").err
    assert not (project / "a.txt").exists()


def test_a_forged_journal_gives_nothing_and_starts_nothing(cloud: Cloud, asked: Here, project: Path) -> None:
    asked("hello")
    everything = ToolGrant(
        tools=("write_file", f"{project / 'mine.py'}:note"),
        mode="yolo",
        allow=(AllowedCall("*"),),
        servers=("evil",),
    )
    grant(session_of(asked), everything)
    cloud.reply(Call("write_file", {"path": "a.txt", "content": "x"}))
    again = asked("-c", "write").err
    assert loads(project) == 0
    assert not (project / "a.txt").exists()
    assert offered(cloud) == ["write_file"]
    assert "MCP server evil: it is not configured here" in again
    assert len(re.findall("Not restored", again)) == 4


def test_a_copy_of_a_session_has_what_was_approved_for_it(cloud: Cloud, asked: Here, project: Path) -> None:
    asked("hello", "-T", "mine.py:note")
    assert "Tools of this session: note" in asked("-c", "--fork", "more").err
    assert "Tools of this session: note" in asked("-c", "more").err


def test_approvals_of_old_sessions_are_forgotten(segue: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.config.trust.MOST_SESSIONS", 2)
    for session in ("a", "b", "c"):
        approve("/x", session, ["one"])
    approve("/x", "b", ["two"])
    assert [is_approved("/x", session, "one") for session in ("a", "b", "c")] == [False, True, True]
    assert is_approved("/x", "b", "two")
    assert not is_approved("/y", "b", "two")


def test_what_the_user_declines_is_not_restored_and_what_nobody_could_be_asked_about_is_kept(
    segue: Here, project: Path
) -> None:
    kept = ToolGrant(tools=("read_file", f"{project / 'mine.py'}:note"), mode="yolo")
    asked_about: list[str] = []

    async def declines(parts: Sequence[str]) -> bool:
        asked_about.extend(parts)
        return False

    def load(names: Iterable[str]) -> tuple[Tool, ...]:
        return load_tools(names, workspace=project)

    declined = asyncio.run(restore(kept, session="s", load=load, usual="ask", ask=declines))
    assert [tool.name for tool in declined.tools] == ["read_file"]
    assert (declined.mode, declined.unasked, declined.declined) == (None, False, [kept.tools[1]])
    assert asked_about == [f"the function note of {project / 'mine.py'}", "approval mode yolo"]
    assert all("you did not want it" in line for line in declined.missing)
    unasked = asyncio.run(restore(kept, session="s", load=load, usual="ask", ask=None))
    assert (unasked.unasked, unasked.declined) == (True, [])
    assert loads(project) == 0
    assert asyncio.run(restore(kept, session="s", load=load, usual="yolo", ask=None)).mode == "yolo"


@pytest.fixture
def terminal(cloud: Cloud) -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as stack:

        def start(*words: str) -> Terminal:
            command = (sys.executable, "-m", "segue", *words)
            environment = cloud.home.full()
            return stack.enter_context(
                Terminal(command, environment=environment, directory=cloud.home.project, rows=40)
            )

        yield start


def test_at_a_terminal_the_question_is_asked_once(
    cloud: Cloud, asked: Here, terminal: Callable[..., Terminal]
) -> None:
    asked("hello", "-T", "write_file", "-y")
    session = session_of(asked)
    # Where nobody can be asked, nothing is forgotten either.
    assert "Not restored: approval mode yolo" in asked("-c", "more").err
    first = terminal("-r", session)
    shown = first.wait_for(r"use it")
    assert "Use again what this session had?" in shown
    assert "- approval mode yolo" in shown
    time.sleep(1.2)  # keys that follow a question at once do not answer it
    first.type("y")
    first.wait_for("enter confirms")
    first.type(ENTER)
    first.wait_for(r"Tools of this session: write_file")
    cloud.reply(Call("write_file", {"path": "a.txt", "content": "x"}))
    first.type("write" + ENTER)
    first.wait_for(r"\d+ s · ")
    assert (cloud.home.project / "a.txt").read_text() == "x"
    first.type("/quit" + ENTER)
    first.wait_for(rf"Resume with: segue -r {session}$")
    second = terminal("-r", session)
    assert "Use again" not in second.wait_for(r"Tools of this session: write_file")
    one_shot = asked("-c", "more")
    assert "Not restored" not in one_shot.err
