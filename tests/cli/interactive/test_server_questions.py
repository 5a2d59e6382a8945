"""A real MCP server asks the user in the middle of a call: who asks is named, and only what is typed afterwards counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud, Here
from cli.interactive.test_interactive import ENTER, READY
from cli.interactive.test_interactive import terminal as terminal  # noqa: PLC0414 - a fixture
from segue.emulators.model.model_reply import Call

SERVER = Path(__file__).parents[2] / "tools" / "hostile_mcp_server.py"


def configure(cloud: Cloud) -> None:
    words = json.dumps([str(SERVER), "form"])
    cloud.home.configure(f"[mcp.servers.s]\ncommand = {json.dumps(sys.executable)}\nargs = {words}\n")
    cloud.reply(Call("mcp__s__a", {}))
    cloud.reply("All over.")


def sent_results(cloud: Cloud) -> str:
    return json.dumps([message for message in cloud.bodies()[-1]["messages"] if message["role"] == "tool"])


@pytest.mark.timeout(120)
def test_the_user_answers_a_server(cloud: Cloud, terminal: Callable[..., Terminal]) -> None:
    configure(cloud)
    segue = terminal("-m", "openai/gpt-4.1", "--yolo")
    segue.wait_for(READY, 60)  # it starts the server first
    segue.type("use it" + ENTER)
    segue.wait_for(r'The MCP server "s" asks you:[\s\S]*Which city\?[\s\S]*y answer')
    segue.settle(0.6)
    segue.type("y")
    segue.wait_for(r"y answer · enter confirms")
    segue.type(ENTER)
    segue.wait_for(r"City \(text\)\. Type it")
    segue.type("Oslo" + ENTER)
    segue.wait_for(r"days \(a number; - leaves it empty\)")
    segue.type("many" + ENTER)
    segue.wait_for(r"days \(a number[\s\S]*days \(a number")
    segue.type("2" + ENTER)
    segue.wait_for(r"one of: 1 C, 2 F")
    segue.type("2" + ENTER)
    segue.wait_for(r"rain \(yes or no")
    segue.type("-" + ENTER)
    segue.wait_for(r"All over\.\n\n  \d+ s · ")
    result = sent_results(cloud)
    assert "accept" in result
    assert all(word in result for word in ("Oslo", "days", "F"))
    assert "rain" not in result


def test_where_nobody_can_be_asked_a_server_is_declined(cloud: Cloud, asked: Here) -> None:
    configure(cloud)
    told = asked("use it", "-m", "openai/gpt-4.1", "--yolo")
    assert "All over." in told.out
    assert "decline" in sent_results(cloud)
