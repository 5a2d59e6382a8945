"""Sessions moved from one program to another: the target reads what was written, and the way back restores its own lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec import structs

from interop.session_samples import claude_line, lines
from segue.conversation.blocks import Block, Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.interop.agents.session_file import folder_name
from segue.interop.agents.session_steps import ModelReply, Prompt, Step, StoredCall, steps_of
from segue.interop.agents.tool_names import ToolNames
from segue.interop.convert import write_request
from segue.interop.move import Sidecar, Sidecars, SourceSession, plan_move, write_move
from segue.interop.repair import repair_conversation
from segue.interop.session_files import read_file
from segue.interop.session_formats import OPENCODE, WRITERS, program_of
from segue.interop.source import SourceRequest
from strategies.histories import conversations

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
SEAL = "EqQBc2lnbmF0dXJl"


@pytest.fixture
def sidecars(tmp_path: Path) -> Sidecars:
    return Sidecars(tmp_path / "sidecars")


def claude_session() -> bytes:
    """Two tool turns with signed thoughts, an image and a tool that no other program has."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": SEAL}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Bash",
        "input": {"command": "ls", "description": "x"},
    }
    odd = {"type": "tool_use", "id": "toolu_2", "name": "mcp__jira__find", "input": {"id": 7}}
    rows = [
        claude_line("user", "u1", None, content=[{"type": "text", "text": "What is here?"}, image]),
        claude_line("assistant", "a1", "u1", id="msg_1", model="claude-opus-5", content=[thought]),
        claude_line("assistant", "a2", "a1", id="msg_1", model="claude-opus-5", content=[call]),
        claude_line(
            "user",
            "r1",
            "a2",
            content=[{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one.txt"}],
        ),
        claude_line("assistant", "a3", "r1", id="msg_2", model="claude-opus-5", content=[odd]),
        claude_line(
            "user",
            "r2",
            "a3",
            content=[{"type": "tool_result", "tool_use_id": "toolu_2", "content": "bug 7"}],
        ),
        claude_line(
            "assistant",
            "a4",
            "r2",
            id="msg_3",
            model="claude-opus-5",
            content=[{"type": "text", "text": "One."}],
        ),
    ]
    return lines(*({**row, "timestamp": f"2026-11-16T02:48:0{n}.000Z"} for n, row in enumerate(rows)))


def session_of(data: bytes, program: str, session_id: str = "") -> SourceSession:
    return SourceSession(program=program, data=data, id=session_id, folder="/srv/shop")


def read_steps(data: bytes, program: str, target: str = "") -> tuple[Step, ...]:
    source, _ = read_file(data)
    conversation = repair_conversation(source.adopted()[0])
    return steps_of(conversation, ToolNames(program, target or program)).steps


PROGRAMS = [*WRITERS, OPENCODE]


@pytest.mark.parametrize("target", PROGRAMS)
def test_a_moved_session_holds_what_was_said_under_the_targets_own_tools(
    target: str, sidecars: Sidecars
) -> None:
    move = plan_move(session_of(claude_session(), "claude"), target, sidecars=sidecars, now=NOW)
    assert program_of(move.data) == target
    prompt, first, *rest = read_steps(move.data, target)
    assert isinstance(prompt, Prompt)
    assert prompt.text == "What is here?"
    assert [media.data for media in prompt.media] == ["iVBORw0KGgo="]
    assert isinstance(first, ModelReply)
    assert [call.output for call in first.calls] == ["one.txt"]
    named = ToolNames("claude", target).translate("Bash", {})
    assert named is not None
    assert first.calls[0].name == named[0]
    assert "mcp__jira__find" in str(rest)
    assert "bug 7" in str(rest)
    assert rest[-1].text.endswith("One.")
    assert SEAL.encode() not in move.data
    assert any("thought" in note for note in move.notes)


@pytest.mark.parametrize("target", [target for target in WRITERS if target != "claude"])
def test_on_the_way_back_a_sessions_own_lines_stand_as_they_were_with_the_new_turns_behind(
    target: str, sidecars: Sidecars
) -> None:
    before = claude_session()
    there = plan_move(session_of(before, "claude", "first"), target, sidecars=sidecars, now=NOW)
    sidecars.keep(there.session_id, there.sidecar)
    added = (Prompt((Text("And now?"),)), ModelReply("Two.", model="other"))
    grown = there.data + _continued(target, there.data, added)
    back = plan_move(session_of(grown, target, there.session_id), "claude", sidecars=sidecars, now=NOW)
    assert back.returns
    rows = [json.loads(line) for line in back.data.splitlines()]
    own = [{**json.loads(line), "sessionId": back.plan.id} for line in before.splitlines()]
    assert rows[: len(own)] == own
    assert [row["message"]["content"] for row in rows[len(own) :] if "message" in row] == [
        "And now?",
        [{"type": "text", "text": "Two."}],
    ]
    assert rows[len(own)]["parentUuid"] == "a4"
    source, _ = read_file(back.data)
    assert SEAL in str(source.body)


def _continued(target: str, data: bytes, steps: tuple[Step, ...]) -> bytes:
    """The lines that a program would append."""
    rows = [json.loads(line) for line in data.splitlines()]
    from segue.interop.agents.session_file import SessionPlan, as_lines

    plan = SessionPlan(
        id="7f1c8a2e-0000-4000-8000-000000000001", folder="/srv/shop", title="", steps=steps, began=NOW
    )
    return as_lines(WRITERS[target]().rows(plan, rows))


def test_the_ids_of_an_opencode_session_rise_since_it_orders_by_them(sidecars: Sidecars) -> None:
    move = plan_move(session_of(claude_session(), "claude"), "opencode", sidecars=sidecars, now=NOW)
    messages = json.loads(move.data)["messages"]
    ids = [message["info"]["id"] for message in messages]
    assert ids == sorted(ids)
    for message in messages:
        parts = [part["id"] for part in message["parts"]]
        assert parts == sorted(parts)
    assert len({part["id"] for message in messages for part in message["parts"]}) == 5


def test_the_way_back_leads_through_several_programs(sidecars: Sidecars) -> None:
    first = plan_move(session_of(claude_session(), "claude", "first"), "codex", sidecars=sidecars, now=NOW)
    sidecars.keep(first.session_id, first.sidecar)
    grown = first.data + _continued("codex", first.data, (Prompt((Text("In Codex."),)), ModelReply("Yes.")))
    second = plan_move(session_of(grown, "codex", first.session_id), "pi", sidecars=sidecars, now=NOW)
    sidecars.keep(second.session_id, second.sidecar)
    more = second.data + _continued("pi", second.data, (Prompt((Text("In pi."),)), ModelReply("Also.")))
    back = plan_move(session_of(more, "pi", second.session_id), "claude", sidecars=sidecars, now=NOW)
    assert back.returns
    assert [step.text for step in back.plan.steps] == ["In Codex.", "Yes.", "In pi.", "Also."]
    assert SEAL.encode() in back.data


def test_a_session_that_was_rewritten_is_converted_whole_and_that_is_said(sidecars: Sidecars) -> None:
    there = plan_move(session_of(claude_session(), "claude", "first"), "codex", sidecars=sidecars, now=NOW)
    sidecars.keep(there.session_id, there.sidecar)
    rewound = b"".join(there.data.splitlines(keepends=True)[:6])
    back = plan_move(session_of(rewound, "codex", there.session_id), "claude", sidecars=sidecars, now=NOW)
    assert not back.returns
    assert any("changed the session" in note for note in back.notes)


def known_tools(conversation: Conversation) -> Conversation:
    """Some of the calls as calls of a tool that every program has."""

    def known(block: Block) -> Block:
        if type(block) is ToolCall and block.name in ("read", "write", "_ok-1"):
            return structs.replace(block, name="run_shell", arguments={"command": block.name}, raw="")
        return block

    return structs.replace(
        conversation,
        messages=tuple(
            structs.replace(message, blocks=tuple(map(known, message.blocks)))
            for message in conversation.messages
        ),
    )


@pytest.mark.parametrize("target", PROGRAMS)
@given(conversation=conversations(DIALECTS["anthropic"].rules).map(known_tools))
def test_what_is_written_for_a_program_is_read_from_it_again(target: str, conversation: Conversation) -> None:
    """All that the format can hold, for arbitrary conversations; what it cannot is in the report and the sidecar."""
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    document = write_request(source, to="conversation").body
    try:
        move = plan_move(session_of(document, ""), target, now=NOW)
    except UsageError as error:
        assert error.code == "empty_session"
        return
    again = read_steps(move.data, target)
    assert _words(again) == _words(move.plan.steps)
    assert move.sidecar.source.encode() == document
    _expect_all_shown_or_reported(read_file(document)[0], again, move.notes)


@pytest.mark.parametrize("target", PROGRAMS)
@pytest.mark.parametrize(("mime", "data"), [("image/png", "é"), ("image/svg+xml", "aGVsbG8=")])
def test_an_image_that_a_provider_would_refuse_is_named_only(target: str, mime: str, data: str) -> None:
    refused = Media("image", mime=mime, data=data, name="plan.png")
    conversation = Conversation().append(Message("user", (Text("Look."), refused)))
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    move = plan_move(session_of(write_request(source, to="conversation").body, ""), target, now=NOW)
    (prompt,) = read_steps(move.data, target)
    assert "[image: plan.png]" in prompt.text
    assert _reported("file", move.notes) == 1


def _expect_all_shown_or_reported(
    source: SourceRequest, steps: tuple[Step, ...], notes: tuple[str, ...]
) -> None:
    repaired = repair_conversation(source.adopted()[0], source.ledger)
    sent = [message for message in repaired.messages if not message.instruction]
    blocks = [block for message in sent for block in message.blocks]
    media = [block for block in blocks if isinstance(block, Media)]
    media += [one for block in blocks if isinstance(block, ToolResult) for one in block.media]
    # Of what the strategy makes, an agent's provider takes this alone.
    images = [one for one in media if (one.kind, one.mime, one.data) == ("image", "image/png", "aGVsbG8=")]
    shown = sum(
        len(step.media) if isinstance(step, Prompt) else sum(len(call.media) for call in step.calls)
        for step in steps
    )
    assert shown + _reported("image", notes) == len(images)
    assert _reported("file", notes) == len(media) - len(images)
    assert _reported("thought", notes) == sum(isinstance(block, Reasoning) for block in blocks)
    said = "".join(map(str, _words(steps)))
    for block in blocks:
        if isinstance(block, Text):
            assert _letters(block.text) in said
        elif isinstance(block, ToolCall):
            assert _letters(block.name) in _letters(str(steps)) or block.name == "run_shell"
    calls = sum(len(step.calls) for step in steps if isinstance(step, ModelReply))
    as_text = sum(step.text.count("[earlier tool ") for step in steps)
    assert calls + as_text >= sum(isinstance(block, ToolCall) for block in blocks)


def _reported(what: str, notes: tuple[str, ...]) -> int:
    counted = [note.split()[:2] for note in notes]
    return sum(int(number) for number, noun in counted if noun.rstrip("s") == what)


def _letters(text: str) -> str:
    return "".join(text.encode("utf-8", "replace").decode().split())


def _words(steps: tuple[Step, ...]) -> list[Any]:
    """What was said, called and answered. Neighbouring texts of one speaker may be read as one."""
    told: list[Any] = []
    for step in steps:
        calls: tuple[StoredCall, ...] = step.calls if isinstance(step, ModelReply) else ()
        media = step.media if isinstance(step, Prompt) else ()
        told.append("".join(step.text.split()))
        told += [(call.id, call.name, call.arguments, "".join(call.output.split())) for call in calls]
        told += [one.data for one in (*media, *(image for call in calls for image in call.media))]
    return [one for one in told if one]


def test_a_session_is_written_privately_where_its_program_finds_it(
    tmp_path: Path, sidecars: Sidecars
) -> None:
    move = plan_move(session_of(claude_session(), "claude", "first"), "codex", sidecars=sidecars, now=NOW)
    stored = write_move(move, sidecars, home=tmp_path / "sessions")
    assert stored.file.read_bytes() == move.data
    assert stored.file.stat().st_mode & 0o777 == 0o600
    assert stored.id == move.plan.id
    assert stored.file.is_relative_to(tmp_path / "sessions" / "2026" / "11" / "17")
    kept = sidecars.find(move.plan.id)
    assert kept == move.sidecar
    with pytest.raises(UsageError):
        write_move(move, sidecars, home=tmp_path / "sessions")


def test_nothing_is_written_through_a_link_that_leads_elsewhere(tmp_path: Path, sidecars: Sidecars) -> None:
    move = plan_move(session_of(claude_session(), "claude"), "claude", sidecars=sidecars, now=NOW)
    home, elsewhere = tmp_path / "projects", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / folder_name(move.plan.folder)).symlink_to(elsewhere)
    with pytest.raises(UsageError):
        write_move(move, sidecars, home=home)
    assert list(elsewhere.iterdir()) == []


def test_ids_that_a_file_names_are_no_paths(tmp_path: Path) -> None:
    sidecars = Sidecars(tmp_path / "sidecars")
    secret = Sidecar(program="codex", written="", source_program="claude", source_id="", source="secret")
    Sidecars(tmp_path).keep("outside", secret)
    assert sidecars.find("../outside") is None


def test_a_folders_name_is_written_as_the_programs_write_it() -> None:
    assert folder_name("/home/me/my shop_ü") == "-home-me-my-shop--"
    long = folder_name("/" + "a" * 300)
    assert long.startswith("-" + "a" * 199 + "-")
    assert len(long) <= 210


def test_reasoning_is_hidden_and_an_unfinished_call_is_closed(sidecars: Sidecars) -> None:
    conversation = Conversation().append(
        Message(
            "user", (Text("go"), Media("document", mime="application/pdf", data="JVBERi0=", name="a.pdf"))
        ),
        Message("model", (Reasoning("Hm."), ToolCall("", "run_shell", {"command": "ls"}))),
        Message("user", (Text("next"),)),
        Message("model", (ToolCall("c9", "run_shell", {"command": "pwd"}),)),
        Message("tool", (ToolResult("c9", "run_shell", error="no such folder"),)),
    )
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    document = write_request(source, to="conversation").body
    move = plan_move(session_of(document, ""), "claude", sidecars=sidecars, now=NOW)
    calls = [call for step in move.plan.steps if isinstance(step, ModelReply) for call in step.calls]
    assert [(call.name, call.failed) for call in calls] == [("Bash", True), ("Bash", True)]
    assert "no such folder" in calls[1].output
    assert len(move.notes) == 2


def test_a_chat_of_ours_returns_with_its_own_seals(sidecars: Sidecars) -> None:
    origin = Origin("anthropic", "anthropic", model="claude-opus-5")
    conversation = Conversation().append(
        Message("user", (Text("go"),)),
        Message("model", (Reasoning("Hm.", Seal(origin, SEAL)), Text("Done.")), origin),
    )
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    document = write_request(source, to="conversation").body
    there = plan_move(session_of(document, "segue", "own"), "codex", sidecars=sidecars, now=NOW)
    sidecars.keep(there.session_id, there.sidecar)
    grown = there.data + _continued("codex", there.data, (Prompt((Text("And now?"),)), ModelReply("Two.")))
    back = plan_move(session_of(grown, "codex", there.session_id), "segue", sidecars=sidecars, now=NOW)
    assert back.returns
    returned = read_file(back.data)[0].conversation
    assert returned is not None
    assert returned.messages[:2] == conversation.messages
    assert [message.text for message in returned.messages[2:]] == ["And now?", "Two."]


def segue(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.endswith(("_HOME", "_DIR"))}
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "segue", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**environment, "HOME": str(home)},
        cwd=home,
    )


def test_the_command_moves_the_last_session_and_prints_how_to_resume_it(tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "projects" / "-srv-shop" / "9238fc31-632d-4458-9420-739ee8310860.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(claude_session())
    dry = segue(tmp_path, "move", "claude", "codex", "--dry-run")
    assert dry.returncode == 0
    assert not (tmp_path / ".codex").exists()
    moved = segue(tmp_path, "move", "claude", "codex", "--folder", str(tmp_path))
    assert moved.returncode == 0, moved.stderr
    (written,) = (tmp_path / ".codex").rglob("rollout-*.jsonl")
    assert f"codex resume {written.stem[-36:]}" in moved.stderr
    assert "not seen there" in moved.stderr
    assert file.read_bytes() == claude_session()
    back = segue(tmp_path, "move", "codex", "claude", "--folder", str(tmp_path))
    assert "put back" in back.stderr
    assert len(list((tmp_path / ".claude").rglob("*.jsonl"))) == 2
    printed = segue(tmp_path, "move", str(file), "pi", "--print")
    assert json.loads(printed.stdout.splitlines()[0])["type"] == "session"
    taken = segue(tmp_path, "move", "claude", "segue")
    assert "segue -r" in taken.stderr, taken.stderr
    assert "last" in segue(tmp_path, "move", "--help").stdout
    out = segue(tmp_path, "move", "last", "codex", "--print")
    assert "one.txt" in out.stdout, out.stderr
    unknown = segue(tmp_path, "move", "claude", "emacs")
    assert unknown.returncode == 2
    assert "opencode" in unknown.stderr
