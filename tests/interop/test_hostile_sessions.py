"""Session files that want to write elsewhere: ids, titles and folders that are paths, links in the way, files that are there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from interop.session_samples import claude_line, lines
from segue.errors import SegueError, TranscriptError, UsageError
from segue.interop import agent_sessions, read_session, write_session
from segue.interop.move import Sidecar, Sidecars, SourceSession, plan_move, write_move
from segue.interop.session_formats import WRITERS, session_format
from segue.interop.stored_sessions import PROGRAMS

PATHS = (
    "../../../escaped",
    "/escaped",
    "..",
    "a/b",
    "a\nb",
    "C:\\escaped",
    "~",
    "-rf",
    "$(touch escaped)",
    "é" * 50,
)


ODD: tuple[Any, ...] = (None, 3, [], {}, "x", [{"type": 3}], {"content": {"type": []}})


def session(text: str, **envelope: Any) -> bytes:
    """A session of Claude Code in which every name is hostile."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    rows = [
        claude_line("user", text, None, content=[{"type": "text", "text": text}, image]),
        claude_line("assistant", "a1", text, id=text, model=text, content=[{"type": "text", "text": "Yes."}]),
    ]
    title = {"type": "ai-title", "aiTitle": text, "sessionId": text}
    stamped = [
        {**row, "sessionId": text, "cwd": text, **envelope, "timestamp": f"2026-11-16T02:48:0{number}.000Z"}
        for number, row in enumerate(rows)
    ]
    return lines(title, *stamped)


def below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("text", PATHS)
@pytest.mark.parametrize("target", WRITERS)
def test_what_a_file_names_writes_nothing_outside_the_agents_folder(
    target: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept, work = (tmp_path / name for name in ("home", "kept", "work"))
    work.mkdir()
    monkeypatch.chdir(work)
    source = SourceSession(program="claude", data=session(text), id=text, folder=text)
    sidecars = Sidecars(kept)
    stored = write_move(plan_move(source, target, sidecars=sidecars), sidecars, home=home)
    written = below(tmp_path)
    assert len(written) == 2
    assert all(file.is_relative_to(home) or file.is_relative_to(kept) for file in written)
    assert stored.file.resolve().is_relative_to(home.resolve())
    for file in written:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.file.parent.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("target", WRITERS)
def test_no_link_is_followed_and_nothing_is_overwritten(target: str, tmp_path: Path) -> None:
    move = plan_move(SourceSession(program="claude", data=session("x"), folder="/srv/shop"), target)
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = session_format(target).file(move.plan, home)
    # A folder on the way is a link.
    first = home / file.relative_to(home).parts[0]
    home.mkdir()
    first.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="leads outside"):
        write_move(move, None, home=home)
    assert list(elsewhere.iterdir()) == []
    # The file itself is a link, be it one that leads nowhere.
    first.unlink()
    file.parent.mkdir(parents=True)
    file.symlink_to(elsewhere / "new")
    with pytest.raises(UsageError):
        write_move(move, None, home=home)
    assert list(elsewhere.iterdir()) == []
    # Something is there already.
    file.unlink()
    file.write_text("mine")
    with pytest.raises(UsageError):
        write_move(move, None, home=home)
    assert file.read_text() == "mine"
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no draft is left behind"


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_working_folder_that_is_none_is_refused_clearly(folder: str) -> None:
    source = SourceSession(program="claude", data=session("x"), folder=folder)
    if folder == "\ud800" and not _is_refused_here(folder):
        pytest.skip("this system takes such a name")
    with pytest.raises(UsageError, match="is no folder"):
        plan_move(source, "pi")


def _is_refused_here(folder: str) -> bool:
    try:
        os.path.realpath(folder)
    except (OSError, ValueError):
        return True
    return False


def test_a_sidecar_is_found_by_a_plain_id_only_and_never_through_a_link(tmp_path: Path) -> None:
    sidecars = Sidecars(tmp_path / "sidecars")
    secret = Sidecar(program="codex", written="", source_program="claude", source_id="", source="secret")
    Sidecars(tmp_path).keep("outside", secret)
    for name in ("../outside", f"{tmp_path}/outside", "outside.json", "", "a" * 81):
        assert sidecars.find(name) is None
    (tmp_path / "sidecars").mkdir(exist_ok=True)
    (tmp_path / "sidecars" / "linked.json").symlink_to(tmp_path / "outside.json")
    assert sidecars.find("linked") is None


def test_a_sidecar_under_an_id_that_is_a_path_is_not_written(tmp_path: Path) -> None:
    secret = Sidecar(program="codex", written="", source_program="claude", source_id="", source="secret")
    with pytest.raises(UsageError):
        Sidecars(tmp_path / "sidecars").keep("../escaped", secret)
    assert below(tmp_path) == set()


def test_a_file_that_is_too_large_or_no_file_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(session("x"))
    monkeypatch.setattr(agent_sessions, "MOST_BYTES", 100)
    with pytest.raises(TranscriptError, match="more than"):
        read_session(file)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for unreadable in (tmp_path, pipe, tmp_path / "missing"):
        with pytest.raises(UsageError):
            read_session(unreadable)


def test_a_session_written_to_a_named_file_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_bytes(session("x"))
    found = read_session(tmp_path / "session.jsonl")
    taken, link = tmp_path / "taken", tmp_path / "link"
    taken.write_text("mine")
    link.symlink_to(tmp_path / "new")
    for file in (taken, link):
        with pytest.raises(UsageError, match="exists already"):
            write_session(found, "codex", file=file)
    assert taken.read_text() == "mine"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("program", [program.name for program in PROGRAMS])
def test_a_session_of_wrong_types_raises_documented_errors_only(program: str, tmp_path: Path) -> None:
    """Every value of a sound session, one after the other, as something else."""
    rows = [json.loads(line) for line in _sound(program).splitlines()]
    for at, row in enumerate(rows):
        for key in row:
            for odd in ODD:
                changed = [*rows[:at], {**row, key: odd}, *rows[at + 1 :]]
                file = tmp_path / "odd.jsonl"
                file.write_bytes(lines(*changed))
                try:
                    plan_move(agent_sessions.source_session(file), "codex" if program == "pi" else "pi")
                except SegueError:
                    continue


def _sound(program: str) -> bytes:
    return plan_move(SourceSession(program="claude", data=session("Which port?")), program).data
