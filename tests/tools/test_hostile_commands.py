"""Commands that look for keys, print them, or would outlive us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from segue.conversation.blocks import ToolCall
from segue.providers.auth import Secret
from segue.providers.config import ProviderConfig
from segue.redaction import REDACTED, StreamRedaction, redact_environment, redact_known
from segue.tools.approval import Approval
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Tool
from segue.tools.execution import run_tool

KEY = "gamma-ray-4711-telescope"


def shell_in(root: Path) -> Tool:
    tools = builtin_tools(root, outputs=root / "outputs", max_characters=1_000)
    return next(tool for tool in tools if tool.name == "run_shell")


def test_a_child_gets_no_key_by_name_by_setting_or_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    ProviderConfig(api_key_env="MY_HARMLESS_NAME")
    Secret("a-value-known-from-a-file")
    monkeypatch.setenv("MY_HARMLESS_NAME", KEY)
    environment = {
        "MY_HARMLESS_NAME": KEY,
        "COPY_OF_IT": f"prefix {KEY} suffix",
        "FROM_FILE": "a-value-known-from-a-file",
        "OPENAI_API_KEY": "sk-000000000000",
        "PATH": "/bin",
    }
    assert redact_environment(environment) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "how",
    ["printf %s {key}", "printf %s {first}; sleep 0.05; printf %s {last}", "printf %s {key} >&2; exit 3"],
)
def test_a_key_that_a_command_prints_reaches_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    Secret(KEY)
    command = how.format(key=KEY, first=KEY[:9], last=KEY[9:])
    result = asyncio.run(run_tool(shell_in(tmp_path), {"command": command}))
    assert REDACTED in str(result.output)
    assert KEY not in repr(result)


def test_a_key_in_a_long_output_is_not_in_the_file_of_it_either(tmp_path: Path) -> None:
    Secret(KEY)
    command = f"i=0; while [ $i -lt 300 ]; do echo line $i {KEY}; i=$((i+1)); done"
    result = asyncio.run(run_tool(shell_in(tmp_path), {"command": command}))
    assert KEY not in repr(result)
    files = [file for file in (tmp_path / "outputs").rglob("*") if file.is_file()]
    assert files
    assert all(KEY not in file.read_text() for file in files)


def test_a_key_is_redacted_wherever_its_text_is_cut() -> None:
    Secret(KEY)
    text = f"a {KEY} b {KEY[:7]} c {KEY}{KEY}"
    for size in range(1, len(text)):
        stream = StreamRedaction()
        parts = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        parts.append(stream.feed("", last=True))
        assert "".join(parts) == f"a {REDACTED} b {KEY[:7]} c {REDACTED}{REDACTED}"


def test_keys_in_the_values_of_any_tool_are_redacted() -> None:
    Secret(KEY)
    assert redact_known({"a": [f"x{KEY}", 1], KEY: None}) == {"a": [f"x{REDACTED}", 1], REDACTED: None}


def test_after_a_kill_nothing_of_a_command_works_on(tmp_path: Path) -> None:
    """SIGKILL gives us no chance to end anything; even a grandchild in the background ends."""
    script = f"""
import asyncio
from pathlib import Path
from segue.tools.builtin import builtin_tools
from segue.tools.execution import run_tool
tools = builtin_tools(Path({str(tmp_path)!r}), outputs=Path({str(tmp_path)!r}) / "outputs")
shell = next(tool for tool in tools if tool.name == "run_shell")
loop = "while true; do echo x >> work; sleep 0.02; done"
asyncio.run(run_tool(shell, {{"command": f"({{loop}}) & {{loop}}"}}))
"""
    work = tmp_path / "work"
    with subprocess.Popen([sys.executable, "-c", script]) as process:  # noqa: S603
        deadline = time.monotonic() + 20
        while not work.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert work.exists()
    sizes = []
    for _ in range(100):
        sizes.append(work.stat().st_size)
        if len(sizes) > 5 and len(set(sizes[-5:])) == 1:
            return
        time.sleep(0.1)
    raise AssertionError("it works on")


@pytest.mark.parametrize(
    ("command", "harmless"),
    [
        ("git status", True),
        ("git log -5 --oneline", True),
        ("git commit -m 'a -c b'", True),
        ("git -c alias.x='!rm x' x", False),
        ("git -calias.x='!rm x' x", False),
        ("git --config-env=alias.x=PATH x", False),
        ("git --exec-path=/tmp/evil status", False),
        ("git rebase --exec 'rm x' main", False),
        ("git rebase -x 'rm x' main", False),
        ("git clone --upload-pack='rm x' a", False),
        ("git clone --upload='rm x' a", False),
        ("git grep -O'rm x' a", False),
        ("git difftool --extcmd='rm x'", False),
        ("git config alias.x '!rm x'", False),
        ("git bisect run rm x", False),
        ("/usr/bin/git -c core.pager='rm x' log", False),
        ("git 'unfinished", False),
    ],
)
def test_options_that_run_other_programs_are_asked_about(command: str, harmless: bool) -> None:
    tool = shell_in(Path.cwd())
    pattern = "run_shell(/usr/bin/git *)" if command.startswith("/") else "run_shell(git *)"
    approval = Approval("ask", allow=[pattern])
    refusal = asyncio.run(approval.refusal(ToolCall("c", "run_shell", {"command": command}), tool))
    assert (refusal == "") is harmless
