"""Golden screens: what a turn looks like in a terminal, cell by cell, at several sizes and without colours.

`SEGUE_WRITE_SCREENS=1 pytest tests/cli/interactive/test_screens.py` writes them anew; look at them before you commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest

from cli.interactive.golden import golden, look_of
from segue.cli.interactive.key_watch import KeyWatch
from segue.cli.interactive.prompts.questions import QuestionView, question_about
from segue.cli.interactive.views.screen import Screen
from segue.cli.interactive.views.turn_view import TurnScene, TurnView, show_switch
from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.errors import OverloadError
from segue.events import (
    Error,
    Finish,
    ReasoningChunk,
    Retrying,
    Switch,
    TextChunk,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
)
from segue.tools.definition import Tool

FOLDER = Path(__file__).parent / "screens"
SIZES = ((80, 24), (44, 20), (120, 40))
ANSWER = """The port is read in **two places**; only `server.py` decides.

## Where it comes from

1. `PORT` in the environment, if it is set
2. the file `config.toml`
   - a number, or *auto*

```python
def port(env: dict[str, str]) -> int:
    return int(env["PORT"])
```

| source | wins over | example |
|---|---|--:|
| environment | everything | 9000 |
| default | nothing | 8080 |

> Restart the server after a change.
"""


class Cells:
    """A terminal in this process."""

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=500)
        self._stream = pyte.Stream(self._screen)

    def write(self, text: str) -> None:
        # This emulator knows no dim letters, but struck ones, which we have none of.
        self._stream.feed(text.replace("\n", "\r\n").replace("\x1b[2m", "\x1b[9m").replace("[2;", "[9;"))

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True

    def golden(self) -> str:
        columns = range(self._screen.columns)
        lines = [*self._screen.history.top, *(self._screen.buffer[row] for row in range(self._screen.lines))]
        cells = [[line[column] for column in columns] for line in lines]
        return golden(cells, lambda cell: look_of(cell, dim=cell.strikethrough))


@pytest.fixture(params=[*SIZES, "no colour"], ids=str)
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    columns, rows = SIZES[0] if request.param == "no colour" else request.param
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(rows))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if request.param == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    cells = Cells(columns, rows)
    yield Screen(cells)  # type: ignore[arg-type]
    scene = request.node.originalname.removeprefix("test_")
    suffix = "plain" if request.param == "no colour" else f"{columns}x{rows}"
    file = FOLDER / f"{scene}-{suffix}.txt"
    if os.environ.get("SEGUE_WRITE_SCREENS"):
        file.write_text(cells.golden(), "utf-8")
    assert cells.golden() == file.read_text("utf-8"), file.name


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def view_of(screen: Screen, clock: Callable[[], float], workspace: Path | None = None) -> TurnView:
    scene = TurnScene("anthropic/claude-sonnet-4-6", workspace, 8, ("openai", "mistral"))
    return TurnView(screen, scene, clock=clock)


def finish(view: TurnView) -> None:
    usage = Usage(input_tokens=905, output_tokens=176)
    view.show(TurnComplete(1, "anthropic/claude-sonnet-4-6", usage, 0.0054))
    view.show(Finish("complete", usage, 0.0054))


def test_answer(screen: Screen) -> None:
    clock = Clock()
    view = view_of(screen, clock)
    view.show(ReasoningChunk("I look into both files."))
    clock.now += 4
    for place in range(0, len(ANSWER), 7):
        view.show(TextChunk(ANSWER[place : place + 7]))
    clock.now += 2
    finish(view)


def call(
    view: TurnView, clock: Clock, number: int, name: str, arguments: dict[str, object], **result: object
) -> None:
    asked = ToolCall(f"c{number}", name, arguments)
    view.show(ToolCallStart(asked))
    if result:
        clock.now += 1.2
        view.show(ToolCallResult(asked, ToolResult(asked.id, name, **result)))  # type: ignore[arg-type]


def test_calls(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        'import os\n\n\ndef port(env):\n    return int(env["PORT"])\n\n\nx = 1\n'
    )
    clock = Clock()
    view = view_of(screen, clock, tmp_path)
    view.show(TextChunk("I run the tests."))
    passed = "\n".join(f"test_{number} PASSED" for number in range(1, 61))
    command = 'for i in $(seq 1 60); do echo "test_$i PASSED"; sleep 0.08; done'
    call(view, clock, 1, "run_shell", {"command": command}, output=passed)
    call(view, clock, 2, "read_file", {"path": "config.toml"}, output="x\n" * 14)
    call(
        view, clock, 3, "run_shell", {"command": "make lint"}, output="ruff: command not found\n(exit code 2)"
    )
    change: dict[str, object] = {
        "path": "server.py",
        "old": '    return int(env["PORT"])\n',
        "new": "    return 8080\n",
    }
    call(view, clock, 4, "edit_file", change, output="Replaced 1 occurrence in server.py.")
    call(view, clock, 5, "mcp__github__search", {"query": "port", "limit": 3}, error="The server is gone.")
    call(view, clock, 6, "run_shell", {"command": "sleep 600"}, reason="cancelled_by_user")
    view.show(TextChunk("All 60 tests pass."))
    finish(view)


def test_running(screen: Screen) -> None:
    clock = Clock()
    view = view_of(screen, clock)
    view.show(TextChunk("I run the tests.\n\n"))
    call(view, clock, 1, "run_shell", {"command": "make test"})
    call(view, clock, 2, "read_file", {"path": "config.toml"})
    clock.now += 2.1
    view.typed = "and what about TLS"
    view.tick()


class NoKeys:
    """A keyboard that nobody touches."""

    question = None
    left_over = ""
    listens = True


def asked(screen: Screen, tool: str, effect: Any, arguments: dict[str, object], workspace: Path) -> None:
    spec = Tool(spec=ToolSpec(tool, "", {}), run=lambda _a, _c: None, effect=effect)  # type: ignore[arg-type,return-value]
    question = question_about(ToolCall("c1", tool, arguments), spec, workspace)
    keys: KeyWatch = NoKeys()  # type: ignore[assignment]
    screen.line("Now the change.")
    QuestionView(screen, question, keys).paint()


def test_question_about_a_command(screen: Screen, tmp_path: Path) -> None:
    command = "rm -rf build && touch build.log && git status --short"
    asked(screen, "run_shell", "run", {"command": command}, tmp_path)


def test_question_about_an_edit(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    asked(screen, "edit_file", "edit", {"path": "a.py", "old": "three", "new": "3\nthree"}, tmp_path)


def test_question_about_a_long_change(screen: Screen, tmp_path: Path) -> None:
    asked(screen, "write_file", "edit", {"path": "new.py", "content": "line\n" * 61}, tmp_path)


def test_retry_and_failure(screen: Screen) -> None:
    clock = Clock()
    view = view_of(screen, clock)
    error = OverloadError("Overloaded", status=529, request_id="req_0131489056e0")
    view.show(Retrying("anthropic/claude-sonnet-4-6", error, 4.0))
    clock.now += 58
    screen.end_text()
    view.show(Error(error))
    view.show(Finish("error"))


def test_countdown(screen: Screen) -> None:
    clock = Clock()
    view = view_of(screen, clock)
    view.show(Retrying("anthropic/claude-sonnet-4-6", OverloadError("Overloaded", status=529), 4.0))
    clock.now += 1.2
    view.tick()


def test_switch(screen: Screen) -> None:
    conversation = Conversation(
        (Message("user", (Text("Hi"),)), Message("model", (Text("Hello"), ToolCall("c", "x", {}))))
    )
    show_switch(screen, Switch("anthropic/claude-sonnet-4-6", "openai/gpt-4.1", "asked"), conversation)
    error = OverloadError("Overloaded", status=529)
    show_switch(
        screen, Switch("anthropic/claude-sonnet-4-6", "openai/gpt-4.1", "failover", (), error), conversation
    )


def test_an_aside_in_the_middle_of_a_program(screen: Screen) -> None:
    view = view_of(screen, Clock())
    view.show(TextChunk("It is *80"))
    screen.paragraph("  queued until this turn ends: and TLS", "dim")
    view.show(TextChunk("80*.\n\n```python\nx = 1\n"))
    screen.paragraph("  another line", "dim")
    view.show(TextChunk("y = 2\n```\n\n| a |\n|---|\n| 1 |\n\nThe *end*."))
    finish(view)
