"""Tool calls as people would write them: what was done, how it ended, and the lines that matter."""

from __future__ import annotations

import pytest

from segue.cli.display.call_text import WrittenArguments, call_end, call_words, folded, writing_words
from segue.conversation.blocks import ToolCall, ToolResult


@pytest.mark.parametrize(
    ("name", "arguments", "running", "done"),
    [
        ("run_shell", {"command": "make  test\n"}, "$ make test", "$ make test"),
        ("read_file", {"path": "a.py"}, "reads a.py", "read a.py"),
        ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, "edits a.py", "edited a.py"),
        ("list_dir", {}, "lists .", "listed ."),
        ("search", {"pattern": "x+"}, 'searches "x+"', 'searched "x+"'),
        ("mcp__a__b", {"n": 1, "t": "x"}, "mcp__a__b n: 1, t: x", "mcp__a__b n: 1, t: x"),
        ("read_file", {"path": 3}, "read_file path: 3", "read_file path: 3"),
    ],
)
def test_a_call_in_words(name: str, arguments: dict[str, object], running: str, done: str) -> None:
    call = ToolCall("c", name, arguments)
    assert call_words(call, done=False) == running
    assert call_words(call, done=True) == done


def end(name: str, output: object = None, **fields: object) -> tuple[str, str, tuple[str, ...]]:
    found = call_end(ToolCall("c", name, {}), ToolResult("c", name, output, **fields))  # type: ignore[arg-type]
    return found.mark, found.detail, found.output


def test_a_command_that_ends_with_another_code_has_failed() -> None:
    assert end("run_shell", "one\nbad\n(exit code 2)") == ("✗", "exit 2", ("one", "bad"))
    assert end("run_shell", "(exit code 0)") == ("✓", "", ())
    assert end("run_shell", "fine\n") == ("✓", "", ("fine",))
    assert end("run_shell", "talks of (exit code 2) here") == ("✓", "", ("talks of (exit code 2) here",))


def test_what_is_for_the_model_is_counted() -> None:
    assert end("read_file", "a\nb\n") == ("✓", "2 lines", ())
    assert end("search", "a.py:1: x") == ("✓", "1 hit", ())
    assert end("search", "(nothing found)") == ("✓", "nothing found", ())
    assert end("list_dir", "a\nb") == ("✓", "2 entries", ())


def test_other_ends() -> None:
    assert end("x", error="It broke.\nBadly.") == ("✗", "", ("It broke.", "Badly."))
    assert end("run_shell", reason="cancelled_by_user") == ("-", "stopped by you", ())
    assert end("x", {"a": 1}) == ("✓", "", ('{"a":1}',))
    assert end("x") == ("?", "", ())


def test_what_a_model_writes_is_shown_while_it_arrives() -> None:
    written, shown = WrittenArguments(), []
    for portion in ('{"pa', 'th": "new.py"', ', "content": "a\\nb', "\\nc"):
        written = written.plus(portion)
        shown.append(writing_words("write_file", written))
    assert shown == [
        "calling write_file",
        "writing new.py",
        "writing new.py, 1 lines",
        "writing new.py, 2 lines",
    ]
    assert writing_words("x", WrittenArguments().plus("y" * 300)) == "calling x (300 characters)"


def test_a_long_output_is_folded() -> None:
    lines = [str(number) for number in range(60)]
    assert folded(lines[:5]) == lines[:5]
    assert folded(lines) == ["0", "… 57 lines · ctrl-o", "58", "59"]
    assert folded(lines, failed=True) == ["… 57 lines · ctrl-o", "57", "58", "59"]
