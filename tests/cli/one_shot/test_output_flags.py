"""What a one-shot prints beside or instead of its whole answer: code alone, tokens and cost, and an answer of given fields."""

from __future__ import annotations

import json

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit
from segue.cli.one_shot.output import first_code_block


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n```python\nprint(1)\n```\nDone.", "print(1)\n"),
        ("```\na\n```\n```\nb\n```", "a\n"),
        ("~~~sh\nls\n~~~", "ls\n"),
        ("````md\n```\ninner\n```\n````\nend", "```\ninner\n```\n"),
        ("Cut off:\n```py\nx = 1\ny =", "x = 1\ny ="),
        ("No code at all.", "No code at all."),
        ("Inline ```not a block``` here.", "Inline ```not a block``` here."),
    ],
)
def test_the_code_of_an_answer_is_its_first_fenced_block(answer: str, code: str) -> None:
    assert first_code_block(answer) == code


def test_x_prints_only_the_code(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Sure:\n```python\nprint('hi')\n```\nRun it.")
    assert asked("-x", "write it").out == "print('hi')\n"


def test_x_and_json_contradict_each_other(asked: Here) -> None:
    told = asked("-x", "--json", "write it")
    assert told.code == Exit.USAGE
    assert "-x prints code" in told.err


def test_u_prints_tokens_and_cost_into_a_pipe_too(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Good day.")
    told = asked("-u", "-m", "openai/gpt-4.1", "hello")
    assert told.out == "Good day.\n"
    assert "openai/gpt-4.1 · " in told.err
    assert " in " in told.err
    assert "$" in told.err
    cloud.reply("Good day.")
    assert "$" not in asked("-m", "openai/gpt-4.1", "hello").err


def test_a_schema_can_be_a_list_of_fields(cloud: Cloud, asked: Here) -> None:
    cloud.reply('{"name": "Ada", "age": 36}')
    told = asked("-m", "openai/gpt-4.1", "--schema", "name, age int: in years", "Who?")
    assert json.loads(told.out) == {"name": "Ada", "age": 36}
    sent = cloud.bodies()[-1]["response_format"]["json_schema"]["schema"]
    assert sent["properties"] == {
        "name": {"type": "string"},
        "age": {"type": "integer", "description": "in years"},
    }
    assert sent["required"] == ["name", "age"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("name, age whole", "neither a file nor a list of fields: age whole"),
        ("name, name int", "names the field name twice"),
        (" , ", "is empty"),
        ("missing.json", "missing.json"),
    ],
)
def test_a_schema_that_is_none_is_refused(cloud: Cloud, asked: Here, schema: str, why: str) -> None:
    told = asked("--schema", schema, "Who?")
    assert told.code != Exit.OK
    assert why in told.err
    assert cloud.bodies() == []


def test_usage_counts_chats_and_one_shots(cloud: Cloud, asked: Here) -> None:
    cloud.reply("One.")
    asked("-m", "openai/gpt-4.1", "first")
    cloud.reply("Two.")
    asked("-c", "-m", "anthropic/claude-sonnet-4-6", "second")
    rows = json.loads(asked("usage", "--json").out)
    assert {(row["caller"], row["route"], row["requests"]) for row in rows} == {
        ("(chats)", "openai/gpt-4.1", 1),
        ("(chats)", "anthropic/claude-sonnet-4-6", 1),
    }
    assert all(row["micros"] > 0 and row["input_tokens"] > 0 for row in rows)
    assert json.loads(asked("usage", "--of", "gateway", "--json").out) == []
    assert json.loads(asked("usage", "--json", "--to", "2020-01-01", "--from", "2020-01-01").out) == []


def test_a_fork_is_not_paid_twice(cloud: Cloud, asked: Here) -> None:
    cloud.reply("One.")
    asked("-m", "openai/gpt-4.1", "first")
    cloud.reply("Two.")
    asked("-c", "--fork", "-m", "openai/gpt-4.1", "second")
    rows = json.loads(asked("usage", "--json").out)
    assert sum(row["requests"] for row in rows) == 2


def test_a_session_that_cannot_be_read_does_not_end_the_sum(cloud: Cloud, asked: Here) -> None:
    settings = ("--set", 'sessions.keep="jsonl"')
    for words in ("first", "second"):
        cloud.reply("One.")
        asked(*settings, "-m", "openai/gpt-4.1", words)
    damaged = sorted(cloud.home.path.rglob("*.jsonl"))[0]
    lines = damaged.read_text().splitlines()
    lines[1] = lines[1][: len(lines[1]) // 2]
    damaged.write_text("\n".join(lines) + "\n")
    rows = json.loads(asked("usage", *settings, "--json").out)
    assert sum(row["requests"] for row in rows) == 1


def test_sessions_are_searched_by_their_texts(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Umbrella.")
    asked("-m", "openai/gpt-4.1", "Weather in Oslo?")
    cloud.reply("8080.")
    asked("-m", "openai/gpt-4.1", "Which port?")
    (found,) = asked("sessions", "search", "umbrella").out.splitlines()
    assert "Weather in Oslo?" in found
    assert asked("sessions", "search").code == Exit.USAGE
