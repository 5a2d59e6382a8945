"""Commands run in a group that ends with them, and say what they have to say."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from segue.conversation.blocks import ToolCall, ToolResult
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Context, Tool
from segue.tools.execution import run_call
from tools.tool_runs import perform, run_tool


@pytest.fixture
def shell(tmp_path: Path) -> Tool:
    (tmp_path / "root").mkdir()
    # Outside of the sandbox, where the numbers of processes are those that a test can look for.
    tools = builtin_tools(
        tmp_path / "root", outputs=tmp_path / "outputs", max_characters=1_000, sandbox="off"
    )
    return next(tool for tool in tools if tool.name == "run_shell")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whose parent has not looked yet is dead all the same.
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]


def wait_until_dead(pid: int) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if not is_alive(pid):
                return
        except FileNotFoundError:
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} is still alive")


def pid_in(path: Path) -> int:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{path} never appeared")


def test_output_and_errors_come_in_order_with_the_exit_code(shell: Tool, tmp_path: Path) -> None:
    assert run_tool(shell, {"command": "echo out; echo err >&2"}).value == "out\nerr\n"
    assert run_tool(shell, {"command": "printf x; exit 3"}).value == "x\n(exit code 3)"
    assert run_tool(shell, {"command": "true"}).value == "(exit code 0)"
    assert run_tool(shell, {"command": "pwd"}).value.strip() == str((tmp_path / "root").resolve())
    assert run_tool(shell, {"command": "cat"}).value == "(exit code 0)"
    assert run_tool(shell, {"command": "kill -9 $$"}).value == "(exit code -9)"


def test_bytes_that_are_no_text_are_told_as_far_as_they_are(shell: Tool) -> None:
    assert run_tool(shell, {"command": r"printf 'a\377\303\244'"}).value == "a\ufffdä"


class Listening(list[str]):
    """Answers the first words by making a file."""

    def __init__(self, answer: Path) -> None:
        self._answer = answer

    def append(self, words: str) -> None:
        super().append(words)
        self._answer.touch()


def test_output_is_told_while_it_comes(shell: Tool, tmp_path: Path) -> None:
    told = Listening(tmp_path / "heard")
    waiting = f"while [ ! -e {tmp_path / 'heard'} ]; do sleep 0.01; done"
    run_tool(shell, {"command": f"echo one; {waiting}; echo two", "seconds": 20}, told)
    assert told == ["one\n", "two\n"]


def test_long_output_is_cropped_and_kept(shell: Tool, tmp_path: Path) -> None:
    value = run_tool(shell, {"command": "seq 1 20000"}).value
    assert value.startswith("1\n2\n")
    assert value.endswith("19999\n20000\n")
    assert len(value) < 1_300
    told = re.search(r"(\d+) characters omitted; all of it is in (\S+),", value)
    assert told is not None
    whole = Path(told[2]).read_text()
    assert whole == "".join(f"{number}\n" for number in range(1, 20001))
    assert int(told[1]) == len(whole) - 1_000


def test_output_that_just_fits_is_not_kept(shell: Tool, tmp_path: Path) -> None:
    assert run_tool(shell, {"command": "head -c 1000 /dev/zero | tr '\\0' x"}).value == "x" * 1_000
    assert not (tmp_path / "outputs").exists()


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(shell: Tool, tmp_path: Path) -> None:
    began = time.monotonic()
    output = run_tool(shell, {"command": "echo begun; sleep 60 & echo $! > child; wait", "seconds": 0.5})
    assert time.monotonic() - began < 5
    assert output.error is not None
    assert "ended after 0.5 seconds" in output.error
    assert "begun" in output.error
    wait_until_dead(pid_in(tmp_path / "root" / "child"))


def test_a_command_that_will_not_end_is_killed(shell: Tool) -> None:
    began = time.monotonic()
    output = run_tool(shell, {"command": "trap '' TERM; while :; do sleep 0.05; done", "seconds": 0.3})
    assert output.error is not None
    assert time.monotonic() - began < 5


def test_a_cancelled_command_ends_with_all_it_started(shell: Tool, tmp_path: Path) -> None:
    async def main() -> int:
        task = asyncio.ensure_future(
            perform(shell, {"command": "(trap '' TERM; sleep 60) & echo $! > child; wait"})
        )
        child = await asyncio.to_thread(pid_in, tmp_path / "root" / "child")
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 2
        return child

    wait_until_dead(asyncio.run(main()))


def test_a_command_may_be_cancelled_at_any_moment_of_its_start(shell: Tool, tmp_path: Path) -> None:
    async def main() -> None:
        for step in range(30):
            started = tmp_path / "root" / f"{step}"
            task = asyncio.ensure_future(perform(shell, {"command": f"sleep 60 & echo $! > {started}; wait"}))
            for _ in range(step):
                await asyncio.sleep(0.0005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    for written in (tmp_path / "root").iterdir():
        if written.read_text().strip():
            wait_until_dead(int(written.read_text()))


def test_what_is_left_in_the_background_holds_nothing_up_and_ends(shell: Tool, tmp_path: Path) -> None:
    began = time.monotonic()
    assert run_tool(shell, {"command": "sleep 60 & echo $! > child; echo done"}).value == "done\n"
    assert time.monotonic() - began < 5
    wait_until_dead(pid_in(tmp_path / "root" / "child"))


def test_no_key_of_ours_reaches_a_command(shell: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame")
    monkeypatch.setenv("MYKEY", "sesame")
    monkeypatch.setenv("LC_TIME", "C.UTF-8")
    value = run_tool(shell, {"command": "env"}).value
    assert "sesame" not in value
    assert "LC_TIME=C.UTF-8" in value


def test_what_a_stopped_command_had_printed_is_kept_for_the_model(shell: Tool) -> None:
    async def main() -> ToolResult:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[None] = loop.create_future()
        call = ToolCall("c0", "run_shell", {"command": "echo three tests passed; sleep 60"})

        def notice(message: str) -> None:
            if "three" in message and not stopped.done():
                stopped.set_result(None)

        context = Context(call=call, abort=asyncio.Event(), progress=notice)
        return await run_call(shell, context, stopped)

    result = asyncio.run(main())
    assert result.reason == "cancelled_by_user"
    assert str(result.output).endswith("Its output until then:\nthree tests passed\n")
