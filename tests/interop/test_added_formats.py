"""Session formats of installed packages: found by their entry points, written, read, and named when they fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from segue.conversation.message import Conversation, model, user
from segue.errors import UsageError
from segue.interop import newest_session, read_session, write_session
from segue.interop.session_files import read_file
from segue.interop.session_formats import program_of, session_format
from segue.plugins import contributions
from segue.testing import check_session_format

MODULE = """
import json
from segue import Conversation, Media, Message, Text, ToolCall, ToolResult
from segue.interop import Prompt

class Meteo:
    name, title, home, pattern = "meteo", "Meteo", ".meteo", "*.json"
    resume = ("meteo", "--resume", "{id}")

    def read(self, data):
        try:
            session = json.loads(data)
        except ValueError:
            return None
        if not isinstance(session, dict) or "meteo" not in session:
            return None
        if session["meteo"] == "broken":
            raise KeyError("rows")
        talk = Conversation()
        for row in session["meteo"]:
            if row["by"] == "user":
                talk = talk.append(Message("user", (Text(row["text"]),)))
                continue
            said = (Text(row["text"]),) if row["text"] else ()
            calls = tuple(ToolCall("", name, arguments, native_id=given) for given, name, arguments, _ in row["calls"])
            talk = talk.append(Message("model", (*said, *calls)))
            results = tuple(
                ToolResult(call.id, call.name, output)
                for call, (_, _, _, output) in zip(talk.messages[-1].calls, row["calls"])
            )
            talk = talk.append(Message("tool", results)) if results else talk
        return talk

    def write(self, plan):
        rows = [{"by": "user", "text": plan.note}] if plan.note else []
        for step in plan.steps:
            if isinstance(step, Prompt):
                rows.append({"by": "user", "text": step.text})
            else:
                calls = [[call.id, call.name, call.arguments, call.output] for call in step.calls]
                rows.append({"by": "model", "text": step.text, "calls": calls})
        return json.dumps({"meteo": rows}).encode()

    def file(self, plan, home):
        return home / f"{plan.id}.json"
"""
ENTRIES = """[segue.session_formats]
meteo = segue_meteo:Meteo
strange = segue_meteo:MODULE
gone = segue_missing:Format
"""
TALK = Conversation().append(user("Will it rain?"), model("No."))


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, and a home."""
    folder = tmp_path / "site"
    about = folder / "segue_meteo-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "segue_meteo.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: segue-meteo\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delitem(sys.modules, "segue_meteo", raising=False)
    assert len(contributions("session format")) == 3
    return folder


def test_a_format_of_a_package_is_checked_like_ours() -> None:
    check_session_format(session_format("meteo"), without=("images", "failures"))


def test_a_session_goes_to_an_agent_of_a_package_and_comes_back(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = write_session(TALK, "claude", folder=tmp_path)
    written = write_session(read_session(first.file), "meteo", folder=tmp_path, sidecars=kept)
    assert written.file == tmp_path / "home" / ".meteo" / f"{written.id}.json"
    assert written.resume == ("meteo", "--resume", written.id)
    found = newest_session("meteo")
    assert (found.program, found.id) == ("meteo", written.id)
    back = write_session(found, "claude", folder=tmp_path, sidecars=kept)
    assert back.returns
    assert read_session(back.file).conversation.messages[-1].text == "No."


def test_a_file_of_an_added_format_is_known_and_a_failing_reader_is_named(tmp_path: Path) -> None:
    data = json.dumps({"meteo": [{"by": "user", "text": "Rain?"}]}).encode()
    assert program_of(data) == "meteo"
    assert read_file(data)[0].form == "Meteo session"
    with pytest.raises(UsageError, match="cannot read this file: KeyError"):
        read_file(b'{"meteo": "broken"}')
    assert read_file(b'{"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}')[0].dialect


def test_a_format_that_cannot_be_used_is_named_with_its_package() -> None:
    with pytest.raises(UsageError, match='The session format "gone" of the package segue-meteo'):
        session_format("gone")
    with pytest.raises(UsageError, match="segue-meteo"):
        session_format("strange")
    with pytest.raises(UsageError, match="Known are claude"):
        session_format("nobody")
