"""One-shot answers on a real terminal: Markdown, dimmed reasoning, the status line, and what NO_COLOR and --plain change."""

from __future__ import annotations

import sys

import pexpect
import pyte

from cli.cli_runs import Cloud
from segue.emulators.model.model_reply import Call, Think

ANSWER = "# Result\n\nSome **bold** words.\n\n- one\n- two\n\n```python\nprint(1)\n```\n"


def on_terminal(cloud: Cloud, *words: str, **environment: str) -> tuple[str, str]:
    """What was sent to the terminal, and what stands on it in the end."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "segue", *words],
        cwd=str(cloud.home.project),
        env={**{k: v for k, v in cloud.home.full().items() if k != "NO_COLOR"}, **environment},
        dimensions=(30, 90),
        timeout=30,
        encoding="utf-8",
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    sent = str(child.before)
    screen = pyte.Screen(90, 30)
    pyte.Stream(screen).feed(sent)
    return sent, "\n".join(line.rstrip() for line in screen.display).strip()


def test_an_answer_is_shown_as_markdown_with_a_status_line(cloud: Cloud) -> None:
    cloud.reply(ANSWER)
    sent, screen = on_terminal(cloud, "hi", "-m", "openai/gpt-4.1")
    assert screen.startswith("Result\n\nSome bold words.\n\n • one\n • two\n\n  print(1)\n")
    assert "**" not in screen
    assert "```" not in screen
    last = screen.splitlines()[-1]
    assert last.startswith("openai/gpt-4.1 · ")
    assert " in " in last
    assert " out" in last
    assert "$" in last
    assert "\x1b[1m" in sent


def test_without_colours_nothing_is_coloured(cloud: Cloud) -> None:
    cloud.reply(ANSWER)
    sent, screen = on_terminal(cloud, "hi", "-m", "openai/gpt-4.1", NO_COLOR="1")
    assert "Some bold words." in screen
    assert not any(f"\x1b[{code}m" in sent for code in (31, 32, 33, 34, 35, 36, 94, 95, 96))


def test_plain_shows_the_words_as_they_are_and_paints_nothing_twice(cloud: Cloud) -> None:
    cloud.reply(ANSWER)
    sent, screen = on_terminal(cloud, "hi", "--plain", "-q", "-m", "openai/gpt-4.1", NO_COLOR="1")
    assert screen == ANSWER.strip()
    assert "\x1b" not in sent


def test_reasoning_is_dimmed_and_can_be_hidden(cloud: Cloud) -> None:
    words = ("hi", "-m", "anthropic/claude-sonnet-4-6", "--effort", "high")
    cloud.reply(Think("Let me think."), "Done.")
    sent, screen = on_terminal(cloud, *words)
    assert "Let me think." in screen
    assert "\x1b[2m" in sent
    assert screen.index("Let me think.") < screen.index("Done.")
    cloud.reply(Think("Let me think."), "Done.")
    _, screen = on_terminal(cloud, *words, "--hide-reasoning")
    assert "think" not in screen


def test_tool_calls_are_told_between_the_words(cloud: Cloud) -> None:
    cloud.reply("I will **look**.", Call("list_dir", {}))
    cloud.reply("Nothing there.")
    _, screen = on_terminal(cloud, "look", "-T", "list_dir", "-m", "openai/gpt-4.1")
    lines = [line for line in screen.splitlines() if line]
    assert lines[0] == "I will look."
    assert lines[1].startswith("→ list_dir")
    assert lines[2].startswith("✓ list_dir")
    assert lines[3] == "Nothing there."


def test_what_a_model_says_cannot_steer_the_terminal(cloud: Cloud) -> None:
    cloud.reply("before \x1b]0;evil\x07\x1b[2Jafter")
    sent, screen = on_terminal(cloud, "hi", "-m", "openai/gpt-4.1")
    assert "before after" in screen
    assert "evil" not in sent


def test_a_long_answer_scrolls_and_is_whole(cloud: Cloud) -> None:
    cloud.reply("\n\n".join(f"Paragraph {number} with some words in it." for number in range(60)))
    sent, _ = on_terminal(cloud, "hi", "-m", "openai/gpt-4.1")
    screen = pyte.HistoryScreen(90, 30, history=1000)
    pyte.Stream(screen).feed(sent)
    above = ["".join(line[at].data for at in range(90)) for line in screen.history.top]
    shown = "\n".join([*above, *screen.display])
    assert [f"Paragraph {number} " in shown for number in range(60)] == [True] * 60
    assert shown.count("Paragraph 0 ") == 1
