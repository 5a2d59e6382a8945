"""Subagents that are defined in files: offered as tools, run as sessions of their own, trusted like other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit
from segue.config.agents import parse_agent
from segue.emulators.model.model_reply import Call

REVIEWER = """---
name: reviewer
description: "Reviews a change for mistakes"
tools: [read_file, search]
---
You review changes.

Be brief.
"""


def agent(folder: Path, name: str, text: str = REVIEWER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.md"
    file.write_text(text)
    return file


def names(body: object) -> list[str]:
    assert isinstance(body, dict)
    return [tool["name"] for tool in body.get("tools", [])]


def test_an_agent_of_a_file_gets_a_task_with_its_own_prompt_and_tools(cloud: Cloud, asked: Here) -> None:
    agent(cloud.home.config_file.parent / "agents", "reviewer")
    cloud.reply(Call("reviewer", {"task": "Review a.txt"}))
    cloud.reply("The change is good.")
    cloud.reply("It is good.")
    told = asked("ask the reviewer", "-m", "anthropic/claude-sonnet-4-6", "-T", "agent:reviewer")
    assert (told.code, told.out) == (Exit.OK, "It is good.\n"), told.err
    parent, child, last = cloud.bodies()
    assert names(parent) == ["reviewer"]
    assert parent["tools"][0]["description"] == "Reviews a change for mistakes"
    assert child["model"] == parent["model"]
    assert "You review changes.\n\nBe brief." in json.dumps(child["system"], ensure_ascii=False).replace(
        "\\n", "\n"
    )
    assert names(child) == ["read_file", "search"]
    assert "Review a.txt" in json.dumps(child["messages"])
    assert "The change is good." in json.dumps(last["messages"])
    # The session remembers its agents as it does its tools.
    cloud.reply("Again.")
    asked("-c", "more")
    assert names(cloud.bodies()[-1]) == ["reviewer"]


def test_an_agent_may_have_another_model_and_a_limit(cloud: Cloud, asked: Here) -> None:
    text = "---\ndescription: Guesses\nmodel: openai/gpt-4.1\ntools:\n  - list_dir\nmax_turns: 1\n---\n"
    agent(cloud.home.config_file.parent / "agents", "guesser", text)
    cloud.reply(Call("guesser", {"task": "Guess"}))
    cloud.reply(Call("list_dir", {}))
    cloud.reply("No luck.")
    asked("look", "-m", "anthropic/claude-sonnet-4-6", "-T", "agents")
    _, child, last = cloud.bodies()
    assert child["model"] == "gpt-4.1"
    assert "its limit" in json.dumps(last["messages"])


def test_agents_of_a_project_are_used_once_they_are_trusted(cloud: Cloud, asked: Here) -> None:
    agent(cloud.home.project / ".segue" / "agents", "reviewer")
    agent(cloud.home.config_file.parent / "agents", "mine", "---\ndescription: Mine\n---\n")
    told = asked("hello", "-m", "anthropic/claude-sonnet-4-6", "-T", "agents")
    assert "Agent reviewer is not offered" in told.err
    assert "segue trust" in told.err
    assert names(cloud.bodies()[-1]) == ["mine"]
    assert asked("hello", "-T", "agent:reviewer").code == Exit.USAGE
    listed = asked("agents").out
    assert "mine      Mine\n" in listed
    assert "is not trusted" in listed
    asked("trust")
    asked("hello", "-m", "anthropic/claude-sonnet-4-6", "-T", "agents")
    assert names(cloud.bodies()[-1]) == ["mine", "reviewer"]
    assert asked("agents", "--path").out.strip() == str(cloud.home.config_file.parent / "agents")


def test_a_name_that_is_wrong_is_corrected(cloud: Cloud, asked: Here) -> None:
    agent(cloud.home.config_file.parent / "agents", "reviewer")
    told = asked("hello", "-T", "agent:reviewr")
    assert told.code == Exit.USAGE
    assert "reviewer" in told.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with settings"),
        ("You review.", "does not begin with settings"),
        ("---\ndescription: x\n", "does not begin with settings"),
        ("---\nname: y\ndescription: x\n---\n", 'its name is "y"'),
        ("---\nname: a\n---\n", "description"),
        ("---\ndescription: \n---\n", "empty"),
        ("---\ndescription: x\ntool: read_file\n---\n", "unknown field `tool`"),
        ("---\ndescription: x\nmax_turns: many\n---\n", "max_turns"),
        ("---\njust words\n---\n", "line 2 is not key: value"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_agent(text, "a")


def test_settings_may_be_written_in_the_usual_ways() -> None:
    text = "\ufeff---\n# a comment\n\ndescription: 'It says: hello'\ntools: a, \"b\"\n---\n\nText --- more\n---\n"
    found = parse_agent(text.removeprefix("\ufeff"), "a")
    assert (found.description, found.tools, found.system) == (
        "It says: hello",
        ["a", "b"],
        "Text --- more\n---",
    )
    assert parse_agent("---\ndescription: x\ntools: []\n---\n", "a").tools == []
    assert parse_agent("---\ndescription: x\n---\n", "a").tools is None
