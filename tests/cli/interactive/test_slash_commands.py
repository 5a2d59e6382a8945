"""Each slash command, typed one after another into a chat whose screen is a text."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import DummyInput

from cli.cli_runs import Cloud
from segue.chat.turn_settings import Budget
from segue.cli.arguments import parse
from segue.cli.interactive.commands.table import COMMANDS, is_command, run_command, works_meanwhile
from segue.cli.interactive.interactive_chat import InteractiveChat
from segue.cli.interactive.prompts.input_line import ChatCompleter
from segue.cli.interactive.views.screen import Screen
from segue.cli.runtime import Runtime
from segue.emulators.model.model_reply import Call


class TypedChat:
    """An interactive chat whose screen can be read."""

    def __init__(self, interactive: InteractiveChat, shown: io.StringIO) -> None:
        self.interactive = interactive
        self._shown = shown

    async def type(self, line: str) -> str:
        """Type a command; what it says."""
        before = len(self._shown.getvalue())
        await run_command(self.interactive, line)
        return self._shown.getvalue()[before:]

    async def send(self, prompt: str) -> str:
        before = len(self._shown.getvalue())
        await self.interactive.run_turn(prompt)
        return self._shown.getvalue()[before:]


@pytest.fixture
def sit(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    cloud.home.here(monkeypatch)

    def play(scene: Callable[[TypedChat], object], *words: str) -> None:
        async def run() -> None:
            runtime = Runtime(parse(["-m", "openai/gpt-4.1", *words]))
            shown = io.StringIO()
            chat = await runtime.open_chat(report=print, on_switch=print)
            interactive = InteractiveChat(chat, runtime, Screen(shown), DummyInput())
            interactive.show_reasoning = True
            await chat.open()
            try:
                result = scene(TypedChat(interactive, shown))
                assert asyncio.iscoroutine(result)
                await result
            finally:
                await interactive.chat.close()
                await runtime.store.close()

        asyncio.run(run())

    return play


def test_a_template_is_a_command_of_ones_own(cloud: Cloud, sit: Callable[..., None]) -> None:
    for folder in (cloud.home.config_file.parent / "templates", cloud.home.project / ".segue" / "templates"):
        folder.mkdir(parents=True)
        (folder / "poem.toml").write_text('prompt = "Write a poem about $input."')
        (folder / "help.toml").write_text('prompt = "Not this one."')
    (cloud.home.project / ".segue" / "templates" / "theirs.toml").write_text('prompt = "Evil."')

    async def scene(at: TypedChat) -> None:
        cloud.reply("Roses.")
        assert "Roses." in await at.type("/poem red flowers")
        assert cloud.bodies()[-1]["messages"][-1]["content"] == "Write a poem about red flowers."
        assert "not trusted" in await at.type("/theirs")
        assert "Roses" not in await at.type("/help")
        assert len(cloud.bodies()) == 1

    sit(scene)


def test_every_command_that_is_offered_is_there() -> None:
    from segue.cli.interactive.commands.table import _action

    for command in COMMANDS:
        assert callable(_action(command)), command.name
        assert command.purpose


def test_a_path_is_no_command() -> None:
    assert is_command("/model x")
    assert not is_command("/usr/bin/env is a path")
    assert not is_command("and / or")
    assert not is_command("   ")
    assert works_meanwhile("/model openai/gpt-4.1")
    assert not works_meanwhile("/undo")


def test_what_is_told_about_a_chat(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("Hello.")
        await at.send("Hi")
        assert "/compact" in await at.type("/help")
        statistics = await at.type("/stats")
        assert re.search(r"turns +1\b", statistics)
        assert "openai/gpt-4.1" in statistics
        context = await at.type("/context")
        assert re.search(r"About \d+ of 1\S+ tokens \(\d+%\) · openai/gpt-4.1", context)
        assert re.search(r"your messages +\d+ ", context)
        assert re.search(r"answers +\d+ ", context)
        assert "read_file" in await at.type("/tools")
        assert "No MCP servers" in await at.type("/mcp")
        assert "No agents" in await at.type("/agents")
        assert 'no action "restart"' in await at.type("/mcp restart")
        assert "now:" in await at.type("/model")
        assert "openai" in await at.type("/provider")

    sit(scene, "-T", "read_file")


def test_a_fork_shows_what_was_spent_before_it(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("Hello.")
        await at.send("Hi")
        await at.type("/fork")
        assert at.interactive.chat.cost is None, "the copy itself has cost nothing yet"
        assert at.interactive.forked_cost > 0
        assert "before the fork" in await at.type("/stats")
        await at.type("/new")
        assert at.interactive.forked_cost == 0

    sit(scene)


def test_switching_provider_and_back(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("One.")
        await at.send("Hi")
        assert "(was openai/gpt-4.1)" in await at.type("/provider anthropic")
        cloud.reply("Two.")
        assert "Two." in await at.send("Hi again")
        assert "There is no provider" in await at.type("/model nobody/x")
        assert "no default model" in await at.type("/provider nobody")
        assert at.interactive.chat.model.startswith("anthropic/")

    sit(scene)


def test_a_failed_turn_keeps_the_message_and_is_tried_again(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.fail(status=503, retry_after=100.0)
        assert "Your message is kept. Enter tries again" in await at.send("Are you there?")
        offered = [at.interactive.can_retry]
        cloud.reply("Yes.")
        await at.interactive.retry_turn()
        offered.append(at.interactive.can_retry)
        assert offered == [True, False]
        asked = [message["content"] for message in cloud.bodies()[-1]["messages"]]
        assert asked == ["Are you there?"]

    sit(scene)


def test_a_model_is_named_by_a_part_of_its_name_if_only_one_has_it(
    cloud: Cloud, sit: Callable[..., None]
) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("One.")
        await at.send("Hi")
        assert "may be one of" in await at.type("/model gpt-4.1-")
        assert "openai/gpt-4.1-mini answers from now on" in await at.type("/model gpt-4.1-mini")
        assert "answers from now on" in await at.type("/model claude-opus-4-6")
        cloud.reply("Two.")
        await at.send("Hi")
        assert "What anthropic/claude-opus-4-6 is sent" in await at.type("/view anthropic")

    sit(scene)


def test_a_view_marks_what_was_changed_for_it(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply(Call("read_file", {"path": "there.txt"}))
        cloud.reply("It says so.")
        Path("there.txt").write_text("so")
        await at.send("Read it")
        shown = await at.type("/view mistral")
        assert re.search(r"~ call id \S+ is c00000000 here", shown)
        assert "  1 you    Read it" in shown
        assert "(your next message)" in shown
        own = await at.type("/view")
        assert "No repairs were needed." in own
        assert "→ reads there.txt" in own
        assert "  3 tool" not in await at.type("/view mistral changes")
        assert '"tool_calls"' in await at.type("/view mistral raw")
        assert "There is no dialect" in await at.type("/view nonsense")
        assert "does not know" in await at.type("/view mistral nonsense")

    sit(scene, "-T", "read_file")


def test_the_doctor_counts_for_every_provider(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("Fine.")
        await at.send("Hi")
        shown = await at.type("/doctor")
        assert "anthropic" in shown
        assert "gemini" in shown

    sit(scene)


def test_exporting_and_dumping(cloud: Cloud, sit: Callable[..., None], tmp_path: Path) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("An answer to keep.")
        await at.send("Hi")
        for name in ("interactive.json", "interactive.md", "interactive.jsonl"):
            assert "Written" in await at.type(f"/export {tmp_path / name}")
        assert json.loads((tmp_path / "interactive.json").read_bytes())
        assert "An answer to keep." in (tmp_path / "interactive.md").read_text()
        assert len((tmp_path / "interactive.jsonl").read_text().splitlines()) >= 4
        await at.type(f"/dump {tmp_path / 'request.json'}")
        dumped = (tmp_path / "request.json").read_bytes()
        assert json.loads(dumped)["model"] == "gpt-4.1"
        assert b"sk-test" not in dumped
        assert "✗" in await at.type(f"/export {tmp_path}/no/such/place.json")

    sit(scene)


def test_settings_reach_the_next_request(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        await at.type("/set temperature 0")
        await at.type("/set system Speak like a sailor.")
        cloud.reply("Aye.")
        await at.send("Hi")
        body = cloud.bodies()[-1]
        assert body["temperature"] == 0
        assert "Speak like a sailor." in str(body["messages"][0])
        assert re.search(r"temperature +0", await at.type("/set"))
        assert "is not a valid temperature" in await at.type("/set temperature warm")
        await at.type("/set temperature -")
        assert re.search(r"temperature +-", await at.type("/set"))

    sit(scene)


def test_approval_can_be_changed(sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        assert "approval: ask" in await at.type("/approval")
        assert "approval: plan" in await at.type("/approval plan")
        assert "no approval mode" in await at.type("/approval whatever")

    sit(scene)


def test_sessions_are_listed_titled_resumed_and_left(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("First.")
        await at.send("The first question")
        await at.type("/save Number one")
        first = at.interactive.chat.id
        assert "New session" in await at.type("/new")
        assert at.interactive.chat.id != first
        cloud.reply("Second.")
        await at.send("The second question")
        listed = await at.type("/sessions")
        assert "Number one" in listed
        assert "The second question" in listed
        assert "First." in await at.type(f"/resume {first[:6]}")
        assert at.interactive.chat.id == first
        assert "There is no session" in await at.type("/resume zzz")
        assert "Resume one with: /resume ID" in await at.type("/resume")
        await at.type("/quit")
        assert at.interactive.leaving

    sit(scene)


def test_undo_where_there_is_nothing_says_so(sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        assert "✗" in await at.type("/undo")
        assert "already as short as possible" in await at.type("/compact")
        assert "no strategy" in await at.type("/compact magically")

    sit(scene)


def test_words_are_completed_from_what_is_known(sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        Path("notes.txt").write_text("")
        completer = ChatCompleter(at.interactive)

        def offered(text: str) -> list[str]:
            return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]

        assert offered("/mod") == ["/model"]
        assert "openai/gpt-4.1" in offered("/model gpt")
        assert "gemini" in offered("/view gem")
        assert "auto-edit" in offered("/approval auto")
        assert offered("look at @not") == ["@notes.txt"]
        assert offered("plain words") == []

    sit(scene)


def test_every_mistake_says_what_and_what_next_and_the_chat_goes_on(
    cloud: Cloud, sit: Callable[..., None]
) -> None:
    mistakes = {
        "/nonsense": "no command",
        "/model nobody/x": "no provider",
        "/provider nobody": "no default model",
        "/profile nobody": "no profile",
        "/compact magically": "no strategy",
        "/undo": "undo",
        "/redo": "redo",
        "/resume zzz": "no session",
        "/save": "title is missing",
        "/view nonsense": "no dialect",
        "/export /no/such/place/x.json": "No such file",
        "/dump": "no messages",
        "/set nonsense 1": "no setting",
        "/set temperature warm": "is not a valid temperature",
        "/approval whatever": "no approval mode",
        "/key": "A provider is missing",
        "/copy": "There is no answer yet",
    }

    async def scene(at: TypedChat) -> None:
        for typed, told in mistakes.items():
            shown = await at.type(typed)
            assert shown.startswith("✗ "), typed
            assert told.lower() in shown.lower(), (typed, shown)
            assert "Traceback" not in shown
        Path("large.bin").write_bytes(b"\xff\xfe\x00")
        assert "is not text, an image, a PDF or audio" in await at.send("look at @large.bin")
        cloud.fail(status=401)
        shown = await at.send("hello")
        assert "openai/gpt-4.1 refused (HTTP 401)" in shown
        assert "segue keys set openai" in shown
        cloud.reply("Fine.")
        assert "Fine." in await at.send("hello again")

    sit(scene)


def test_a_fault_of_ours_does_not_take_the_conversation_away(
    sit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_anything: object) -> None:
        raise RuntimeError("of ours")

    async def scene(at: TypedChat) -> None:
        monkeypatch.setattr("segue.cli.interactive.commands.info.show_tools", fail)
        assert "/tools failed: RuntimeError: of ours" in await at.type("/tools")

    sit(scene)


def test_a_limit_of_cost_stops_a_turn(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        at.interactive.runtime.budget = Budget(max_cost=0.000001)
        await at.type("/new")
        cloud.reply("words " * 200, Call("list_dir", {}))
        shown = await at.send("Look runtime")
        assert "The turn was stopped: it has cost" in shown

    sit(scene, "-T", "list_dir")


def test_profiles_are_told_and_chosen(cloud: Cloud, sit: Callable[..., None]) -> None:
    cloud.home.configure(
        '[profiles.team]\npolicy = "round_robin"\nmembers = ["openai/gpt-4.1", "anthropic/claude-sonnet-4-6"]\n'
    )

    async def scene(at: TypedChat) -> None:
        assert "team: round_robin of openai/gpt-4.1" in await at.type("/profile")
        assert "team answers from now on" in await at.type("/profile team")

    sit(scene)


def test_the_model_writes_what_an_assistant_has_to_know(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply(Call("write_file", {"path": "AGENTS.md", "content": "# How to work here\n"}))
        cloud.reply("Written.")
        await at.type("/approval yolo")
        assert "Written." in await at.type("/init")
        assert Path("AGENTS.md").read_text() == "# How to work here\n"
        assert "exists already" in await at.type("/init")

    sit(scene)


def test_saying_it_differently_puts_the_words_back(cloud: Cloud, sit: Callable[..., None]) -> None:
    async def scene(at: TypedChat) -> None:
        cloud.reply("One.")
        await at.send("The first words")
        assert "The turn is removed" in await at.type("/rewind")
        assert at.interactive.unsent == "The first words"

    sit(scene)
