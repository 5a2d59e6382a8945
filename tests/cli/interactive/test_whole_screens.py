"""Golden screens of whole chats in a real terminal: the start, a turn, what another model would be sent, and the
chat resumed. `SEGUE_WRITE_SCREENS=1` writes them anew; look at them before you commit."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud
from cli.interactive.golden import golden, look_of
from segue.emulators.model.model_reply import Call

FOLDER = Path(__file__).parent / "screens"
CHANGING = {
    r"session [0-9a-f]{12}": "session 0123456789ab",
    r"\b\d+ s ·": "0 s ·",
    r"segue \d+\.\d+\.\d+": "segue 0.1.0",
}
PROMPT = r"(.|\n)*\n› Ask anything\n +claude-sonnet-4-6 ·"


@pytest.fixture(params=[(80, 24), (44, 20), (120, 40), "no colour"], ids=str)
def sized(request: pytest.FixtureRequest) -> tuple[int, int, str]:
    if request.param == "no colour":
        return 80, 24, "plain"
    columns, rows = request.param
    return columns, rows, f"{columns}x{rows}"


def test_a_chat_from_its_start_to_its_resumption(cloud: Cloud, sized: tuple[int, int, str]) -> None:
    columns, rows, name = sized
    environment = cloud.home.full() | ({"NO_COLOR": "1"} if name == "plain" else {})
    if name != "plain":
        environment.pop("NO_COLOR", None)
    (cloud.home.project / "server.py").write_text("PORT = 8080\n")
    cloud.reply(Call("read_file", {"path": "server.py"}))
    cloud.reply("It is set in `server.py`: **8080**.")

    def segue(*words: str) -> Terminal:
        command = (sys.executable, "-m", "segue", *words)
        here = cloud.home.project
        return Terminal(
            command, environment=environment, directory=here, columns=columns, rows=rows, answers=True
        )

    with segue("-m", "anthropic/claude-sonnet-4-6", "-T", "read_file") as chat:
        chat.wait_for(r"exits\n+›")
        chat.type("Where is the port set?\r")
        chat.wait_for(r"8080\.\n+ .* out")
        chat.type("/view mistral/mistral-large-latest\r")
        chat.wait_for(r"not changed" + PROMPT)
        _compare(chat, f"view-{name}.txt")
        chat.type("\x04")
        chat.wait_for("Resume with")
    with segue("-c") as chat:
        chat.wait_for(r"8080\." + PROMPT)
        _compare(chat, f"resumed-{name}.txt")


def _compare(chat: Terminal, name: str) -> None:
    chat.settle()
    shown = golden(chat.cells(), look_of)
    for changing, fixed in CHANGING.items():
        shown = re.sub(changing, fixed, shown)
    file = FOLDER / name
    if os.environ.get("SEGUE_WRITE_SCREENS"):
        file.write_text(shown, "utf-8")
    assert shown == file.read_text("utf-8"), name
