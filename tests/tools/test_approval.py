"""Nothing runs that nobody agreed to."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import time
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from segue.conversation.blocks import ToolCall
from segue.conversation.tools import ToolSpec
from segue.errors import UsageError
from segue.events import Decision
from segue.tools.approval import Approval, Mode, is_simple, own_functions_only, parse_pattern
from segue.tools.definition import Context, Effect, Tool

EFFECTS: tuple[Effect, ...] = get_args(Effect)


async def _never(_arguments: dict[str, Any], _context: Context) -> None:
    raise AssertionError("approval runs nothing")


def a_tool(name: str, effect: Effect) -> Tool:
    return Tool(spec=ToolSpec(name), run=_never, effect=effect)


SHELL = a_tool("run_shell", "run")
EDIT = a_tool("edit_file", "edit")
FETCH = a_tool("fetch_url", "fetch")
OTHER = a_tool("mcp__files__write", "other")


def refusal(approval: Approval, tool: Tool, **arguments: Any) -> str:
    return asyncio.run(approval.refusal(ToolCall("c", tool.name, arguments), tool))


def allowed(approval: Approval, tool: Tool, **arguments: Any) -> bool:
    return refusal(approval, tool, **arguments) == ""


@pytest.mark.parametrize(
    ("mode", "free"),
    [("plan", {"read"}), ("ask", {"read"}), ("auto-edit", {"read", "edit"}), ("yolo", set(EFFECTS))],
)
def test_each_mode_lets_its_effects_through_and_refuses_the_rest_where_nobody_can_be_asked(
    mode: Mode, free: set[Effect]
) -> None:
    approval = Approval(mode)
    assert {effect for effect in EFFECTS if allowed(approval, a_tool("t", effect))} == free
    for effect in set(EFFECTS) - free:
        assert refusal(approval, a_tool("t", effect)).startswith("Denied: ")


def test_an_unknown_mode_and_a_broken_pattern_are_refused() -> None:
    with pytest.raises(UsageError, match="no approval mode"):
        Approval("yes")  # type: ignore[arg-type]
    for text in ("", "(git *)", "run_shell(git *"):
        with pytest.raises(UsageError, match="no pattern"):
            parse_pattern(text)


def test_planning_runs_nothing_but_reading_also_if_it_is_on_the_list() -> None:
    async def ask(_call: ToolCall, _tool: Tool) -> Decision:
        raise AssertionError("nobody is asked while planning")

    approval = Approval("plan", allow=["run_shell"], ask=ask)
    assert "planning" in refusal(approval, SHELL, command="ls")


def test_deny_wins_over_the_mode_and_over_allow() -> None:
    approval = Approval("yolo", allow=["run_shell(git push)"], deny=["run_shell(git push*)", "mcp__files__*"])
    assert not allowed(approval, SHELL, command="git push")
    assert not allowed(approval, OTHER, path="a")
    assert allowed(approval, SHELL, command="git status")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "  rm -rf x",
        "cd y && rm -rf x",
        "true;rm -rf x",
        "true\nrm -rf x",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "(rm -rf x)",
        "{ rm -rf x; }",
        'sh -c "rm -rf x"',
        "sh -c 'true; rm -rf x'",
        "'rm' -rf x",
        "r\\m -rf x",
        "/bin/rm -rf x",
        "sudo rm -rf x",
        "A=1 rm -rf x",
        "ls | xargs rm -rf",
    ],
)
def test_a_denied_command_is_found_in_every_part_of_a_command_line(command: str) -> None:
    assert not allowed(Approval("yolo", deny=["run_shell(rm *)"]), SHELL, command=command)


@pytest.mark.parametrize(
    ("command", "simple"),
    [
        ("git status", True),
        ("git", True),
        ("git commit -m 'a; b && $(c)'", True),
        ('git commit -m "a; b | c"', True),
        ("git log --format=%h src/*.py", True),
        ("git status; rm x", False),
        ("git status && rm x", False),
        ("git status & rm x", False),
        ("git status || rm x", False),
        ("git status | sh", False),
        ("git status\nrm x", False),
        ("git status\r\nrm x", False),
        ("git $(rm x)", False),
        ("git `rm x`", False),
        ('git "$(rm x)"', False),
        ('git "`rm x`"', False),
        ("git <(rm x)", False),
        ("git log > ~/.bashrc", False),
        ("git ${X:-y}", False),
        ("git $'a'", False),
        ("git 'a' ; rm x", False),
        ("git 'unfinished", False),
        ("git \\\nrm", False),
        ("git \x00rm", False),
        ("git !rm", False),
        ("git {a,b}", False),
        ("X=1 git status", False),
        ("GIT status", False),
        ("gitx status", False),
    ],
)
def test_an_allowed_command_is_allowed_only_when_it_is_simple(command: str, simple: bool) -> None:
    assert allowed(Approval(allow=["run_shell(git *)"]), SHELL, command=command) is simple


SEPARATORS = [";", "&&", "||", "|", "&", "\n", "\r\n", ";;", "|&", "\n\n", " ; "]
_words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
_arguments = st.lists(
    _words.map(shlex.quote) | st.sampled_from(["-x", "a.py", "--b=c", "'q'", '"d"', "*", "~"])
)


@given(_arguments, st.sampled_from(SEPARATORS), _arguments)
def test_no_command_joined_to_an_allowed_one_is_allowed_with_it(
    first: list[str], separator: str, second: list[str]
) -> None:
    command = f"{' '.join(['git', *first])}{separator}{' '.join(['rm', *second])}"
    assert not allowed(Approval(allow=["run_shell(git *)"]), SHELL, command=command)


@given(
    _arguments,
    st.sampled_from(["$({})", "`{}`", '"$({})"', '"`{}`"', "<({})", "${{x:-`{}`}}", "> {}"]),
    _arguments,
)
def test_no_command_inside_an_allowed_one_is_allowed_with_it(
    first: list[str], wrapped: str, second: list[str]
) -> None:
    inner = wrapped.format(" ".join(["rm", *second]))
    command = " ".join(["git", *first, inner])
    assert not allowed(Approval(allow=["run_shell(git *)"]), SHELL, command=command)


@given(st.text(st.sampled_from(list("ab '\"\\$`;&|<>(){}!#*?[]~=\n\t-")), max_size=24))
def test_a_real_shell_runs_nothing_of_a_simple_command_but_its_first_word(rest: str) -> None:
    command = f"git {rest}"
    assume(is_simple(command))
    # With no program to be found, the shell names what it tried to run.
    answer = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", command], capture_output=True, check=False, env={"PATH": "/nonexistent"}, timeout=10
    )
    tried = [line for line in answer.stderr.decode(errors="replace").splitlines() if line]
    assert len(tried) == 1
    assert "git" in tried[0]
    assert answer.returncode == 127


def test_a_command_that_is_listed_word_for_word_may_be_anything() -> None:
    approval = Approval(allow=["run_shell(make && make test)"])
    assert allowed(approval, SHELL, command=" make && make test ")
    assert not allowed(approval, SHELL, command="make && make test; rm x")


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("docs/a.md", True),
        ("docs/../src/a.py", False),
        ("./docs/a.md", True),
        ("/docs/a.md", False),
        ("src/docs/a", False),
    ],
)
def test_a_path_is_allowed_by_where_it_leads(path: str, is_allowed: bool) -> None:
    assert allowed(Approval(allow=["edit_file(docs/*)"]), EDIT, path=path) is is_allowed


@pytest.mark.parametrize(
    "path", ["secrets/key", "./secrets/key", "a/../secrets/key", "/home/me/work/secrets/key"]
)
def test_a_path_is_denied_however_it_is_said(path: str) -> None:
    assert not allowed(Approval("yolo", deny=["edit_file(secrets/*)"]), EDIT, path=path)
    assert not allowed(Approval("yolo", deny=["mcp__*(secrets/*)"]), OTHER, files=[{"target": path}])


def test_an_address_is_allowed_by_its_host_and_denied_however_it_is_spelled() -> None:
    approval = Approval(allow=["fetch_url(https://*.example.org/*)"])
    assert allowed(approval, FETCH, url="https://docs.example.org/a/b?c")
    assert not allowed(approval, FETCH, url="https://evil.test/.example.org/")
    assert not allowed(approval, FETCH, url="https://evil.test?.example.org/")
    deny = Approval("yolo", deny=["fetch_url(https://*.evil.test/*)"])
    assert not allowed(deny, FETCH, url="HTTPS://A.EVIL.test:443/x")
    assert not allowed(deny, FETCH, url="https://a.evil.test./x")
    assert allowed(deny, FETCH, url="https://example.org/x")


def test_a_tool_that_nobody_knows_is_allowed_a_command_only_when_it_is_simple() -> None:
    approval = Approval(allow=["mcp__files__write(git *)"])
    assert allowed(approval, OTHER, command="git status")
    assert not allowed(approval, OTHER, command="git status; rm x")
    assert not allowed(approval, OTHER, script="git status")


def test_a_call_is_judged_quickly_however_long_it_is() -> None:
    approval = Approval("yolo", deny=["*(secrets/*)", "*(rm *)"])
    began = time.process_time()
    assert not allowed(approval, SHELL, command="true; " * 100_000)
    assert allowed(approval, OTHER, content="a/'b " * 200_000, more=["x/y"] * 5_000)
    assert not allowed(approval, OTHER, content="x" * 100_000, path="a/secrets/b")
    assert time.process_time() - began < 5


class Asked:
    """Answers in order, and notes how many questions stood open at once."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []
        self.open = self.most = 0

    async def __call__(self, call: ToolCall, _tool: Tool) -> Decision:
        self.open += 1
        self.most = max(self.most, self.open)
        self.calls.append(call.id)
        await asyncio.sleep(0.001)
        self.open -= 1
        return self.answers.pop(0)


def test_parallel_calls_are_asked_one_at_a_time_and_always_answers_those_that_wait() -> None:
    async def main() -> None:
        ask = Asked("always", "no")
        approval = Approval(ask=ask)
        calls = [ToolCall(f"c{n}", "run_shell", {"command": "make" if n < 5 else "make x"}) for n in range(6)]
        answers = await asyncio.gather(*(approval.refusal(call, SHELL) for call in calls))
        assert answers[:5] == [""] * 5
        assert "does not want" in answers[5]
        assert (ask.calls, ask.most) == (["c0", "c5"], 1)

    asyncio.run(main())


def test_always_means_this_command_this_host_or_this_tool_and_nothing_else() -> None:
    approval = Approval(ask=Asked("always", "always", "always"))
    assert allowed(approval, SHELL, command="ls *.py; pwd")
    assert allowed(approval, FETCH, url="https://example.org/a")
    assert allowed(approval, EDIT, path="a")
    approval.ask = None
    assert allowed(approval, SHELL, command="ls *.py; pwd")
    assert not allowed(approval, SHELL, command="ls a.py; pwd")
    assert allowed(approval, FETCH, url="https://example.org/b?c")
    assert not allowed(approval, FETCH, url="https://example.org.evil.test/b")
    assert not allowed(approval, FETCH, url="http://example.org/b")
    assert allowed(approval, EDIT, path="b")
    assert not allowed(approval, a_tool("edit_file_x", "edit"), path="b")


def test_once_is_once_and_a_broken_asker_has_agreed_to_nothing() -> None:
    async def broken(_call: ToolCall, _tool: Tool) -> Decision:
        raise OSError("the terminal is gone")

    approval = Approval(ask=Asked("once"))
    assert allowed(approval, EDIT, path="a")
    approval.ask = broken
    assert "could not be asked" in refusal(approval, EDIT, path="a")
    approval.ask = None
    assert "nobody is there" in refusal(approval, EDIT, path="a")


def test_the_mode_may_change_while_a_call_waits() -> None:
    async def main() -> None:
        approval = Approval()

        async def ask(_call: ToolCall, _tool: Tool) -> Decision:
            approval.mode = "yolo"
            return "once"

        approval.ask = ask
        calls = [ToolCall(f"c{n}", "run_shell", {"command": "make"}) for n in range(2)]
        assert await asyncio.gather(*(approval.refusal(call, SHELL) for call in calls)) == ["", ""]

    asyncio.run(main())


def test_without_approval_only_what_was_written_for_the_chat_runs() -> None:
    theirs = Tool(spec=ToolSpec("mcp__files__remove"), run=_never, foreign=True)
    reading = Tool(spec=ToolSpec("mcp__files__read"), run=_never, effect="read", foreign=True)
    tools = [a_tool("own", "other"), theirs, reading, SHELL, EDIT]
    approval = own_functions_only(tools)
    refused = [tool.name for tool in tools if refusal(approval, tool)]
    assert refused == ["mcp__files__remove", "run_shell", "edit_file"]
