"""The two modes of the command line, run themselves: one and the same turn leaves one and the same journal."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from prompt_toolkit.input import DummyInput

from cli.cli_runs import Cloud, Here
from segue.cli.arguments import parse
from segue.cli.exit_codes import Exit
from segue.cli.interactive.interactive_chat import InteractiveChat
from segue.cli.interactive.views.screen import Screen
from segue.cli.runtime import Runtime
from segue.conversation.json_safe import json_safe
from segue.emulators.model.model_reply import Call

WORDS = ("-m", "openai/gpt-4.1", "-T", "read_file", "-T", "list_dir")
FIVE = (
    Call("read_file", {"path": "a.txt"}),
    Call("list_dir", {"path": "."}),
    Call("read_file", {"path": "missing.txt"}),
    Call("nowhere", {}),
    Call("read_file", {"wrong": 1}),
)


def entries_of(asked: Here, session: str) -> list[object]:
    """All entries but the first, which bears the time and the directory."""
    exported = asked("sessions", "export", session, "--format", "journal").out
    entries = [json_safe(json.loads(line)["entry"]) for line in exported.splitlines()][1:]
    # Calls of one batch end in any order, between the same entries.
    ended = sorted((entry for entry in entries if entry["type"] == "call_ended"), key=str)
    return [ended.pop(0) if entry["type"] == "call_ended" else entry for entry in entries]


def run_interactive(prompt: str) -> str:
    async def run() -> str:
        shown = io.StringIO()
        runtime = Runtime(parse(list(WORDS)))
        try:
            chat = await runtime.open_chat(report=print, on_switch=print)
            interactive = InteractiveChat(chat, runtime, Screen(shown), DummyInput())
            interactive.show_reasoning = True
            async with chat:
                await interactive.run_turn(prompt)
                return chat.id
        finally:
            await runtime.close()

    return asyncio.run(run())


@pytest.mark.requirement("REQ-915-029", "REQ-915-045")
def test_one_shot_and_interactive_leave_the_same_journal_and_send_the_same_requests(
    cloud: Cloud, asked: Here
) -> None:
    (cloud.home.project / "a.txt").write_text("hello\n")
    journals, requests = [], []
    for mode in ("one-shot", "interactive"):
        cloud.emulator.reset()
        cloud.reply("Let me see.", *FIVE)
        cloud.reply("That is all.")
        if mode == "one-shot":
            told = asked("what is there?", "--json", *WORDS)
            assert told.code == Exit.OK, told.err
            session = json.loads(told.out)["session_id"]
        else:
            session = run_interactive("what is there?")
        journals.append(entries_of(asked, session))
        requests.append(json.dumps(cloud.bodies()).replace(session, "SESSION"))
    assert journals[0] == journals[1]
    kinds = [entry["type"] for entry in journals[0] if isinstance(entry, dict)]
    assert kinds.count("call_ended") == 5
    assert kinds[-1] == "turn_ended"
    assert requests[0] == requests[1]
