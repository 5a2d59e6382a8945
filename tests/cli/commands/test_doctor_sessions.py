"""`segue doctor` with the sessions of programs on this machine: listed, checked by name, repaired where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop import session_samples as samples

GEMINI_ID = "34d238bf-c1d9-4e7b-8811-cdcf6bb739ac"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a session of Gemini CLI that cannot be resumed, and one of Claude Code that can."""
    gemini = tmp_path / ".gemini" / "tmp" / "shop" / "chats" / "session-2026-11-16T02-49-34d238bf.jsonl"
    claude = tmp_path / ".claude" / "projects" / "-srv-shop" / "9238fc31-632d-4458-9420-739ee8310860.jsonl"
    for file in (gemini, claude):
        file.parent.mkdir(parents=True)
    gemini.write_bytes(samples.gemini_cli().replace(b'"34d2"', f'"{GEMINI_ID}"'.encode()))
    (gemini.parent.parent / ".project_root").write_text("/srv/my shop\n")
    claude.write_bytes(samples.claude_code())
    os.utime(claude, (1_700_000_000, 1_700_000_000))
    return tmp_path


def doctor(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "segue", "doctor", *words]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, check=False, timeout=60, text=True, env=environment, cwd=home
    )


def gemini_file(home: Path) -> Path:
    return next((home / ".gemini").rglob("session-*.jsonl"))


def test_without_a_file_the_sessions_of_this_machine_are_listed_with_their_state(home: Path) -> None:
    listed = doctor(home)
    assert listed.returncode == 0
    _, first, second = listed.stdout.splitlines()
    assert "Gemini CLI" in first
    assert "/srv/my shop" in first
    assert "refused at every resume" in first
    assert "Claude Code" in second
    assert "fine" in second


def test_the_list_is_there_as_json(home: Path) -> None:
    listed = json.loads(doctor(home, "--json").stdout)
    assert [session["program"] for session in listed] == ["gemini", "claude"]
    assert listed[0]["resume"] == f"cd '/srv/my shop' && gemini --resume {GEMINI_ID}"


def test_where_no_program_has_sessions_the_list_says_so(tmp_path: Path) -> None:
    listed = doctor(tmp_path)
    assert listed.returncode == 0
    assert "No sessions" in listed.stderr
    named = doctor(tmp_path, "codex")
    assert named.returncode == 2
    assert str(tmp_path / ".codex" / "sessions") in named.stderr


def test_a_programs_name_stands_for_its_last_session_which_is_repaired_in_place(home: Path) -> None:
    before = gemini_file(home).read_bytes()
    gemini_file(home).chmod(0o600)
    found = doctor(home, "gemini")
    assert found.returncode == 1
    assert "Gemini CLI sends both" in found.stdout
    assert "Resume it" not in found.stderr
    assert gemini_file(home).read_bytes() == before
    fixed = doctor(home, "gemini", "--fix")
    assert f"Resume it with: cd '/srv/my shop' && gemini --resume {GEMINI_ID}" in fixed.stderr
    after = gemini_file(home).read_bytes()
    assert set(after.splitlines()) < set(before.splitlines())
    backup = gemini_file(home).with_name(gemini_file(home).name + ".1.bak")
    assert backup.read_bytes() == before
    assert gemini_file(home).stat().st_mode & 0o777 == 0o600
    assert doctor(home, "gemini").returncode == 0
    assert doctor(home, "--fix", str(gemini_file(home))).returncode == 0
    assert gemini_file(home).read_bytes() == after


def test_a_misspelt_program_is_suggested(tmp_path: Path) -> None:
    ended = doctor(tmp_path, "cluade")
    assert ended.returncode == 2
    assert 'There is no file cluade.\n       Did you mean "claude"?' in ended.stderr
    assert "List the sessions: segue doctor" in doctor(tmp_path, "no-such-file.json").stderr


def test_a_copy_of_a_session_is_written_in_its_own_format(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy.jsonl"
    doctor(home, str(gemini_file(home)), "--fix", str(out))
    assert b"projectHash" in out.read_bytes()
    request = tmp_path / "request.json"
    doctor(home, str(gemini_file(home)), "--for", "anthropic", "--fix", str(request))
    assert "messages" in json.loads(request.read_bytes())


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="this system does not tell who has a file open"
)
def test_a_session_that_another_program_has_open_is_not_touched(home: Path) -> None:
    before = gemini_file(home).read_bytes()
    with gemini_file(home).open("rb"):
        fixed = doctor(home, "gemini", "--fix")
    assert fixed.returncode == 2
    assert "is open in another program" in fixed.stderr
    assert gemini_file(home).read_bytes() == before


def test_a_session_format_that_cannot_be_written_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "logs.json"
    file.write_bytes(samples.llm_logs())
    fixed = doctor(tmp_path, str(file), "--fix")
    assert fixed.returncode == 2
    assert "--fix OUT" in fixed.stderr
    assert file.read_bytes() == samples.llm_logs()


def test_notes_that_say_the_same_are_shown_once(tmp_path: Path) -> None:
    rows = [
        {"role": "user", "content": "go"},
        *(
            message
            for number in range(6)
            for message in (
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"}],
                },
                {"role": "user", "content": "next"},
            )
        ),
    ]
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"model": "claude-opus-5", "max_tokens": 9, "messages": rows}))
    shown = doctor(tmp_path, str(file), "--for", "all").stdout
    section = shown.partition("openai_chat")[2].partition("\n\n")[0]
    assert section.count("reasoning") <= 2
    assert "more places" in section
