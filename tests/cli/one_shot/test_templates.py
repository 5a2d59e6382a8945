"""Templates: prompts in files; those of a project only once it is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here, Home
from segue.cli.exit_codes import Exit
from segue.config.templates import Template
from segue.errors import UsageError

REVIEW = """
description = "Review a change"
prompt = "Review for a $audience reader, ${price}$$: $input"
variables = { audience = "careful" }
system = "Be brief."
model = "anthropic/claude-sonnet-4-5"
options = { temperature = 0.5, max_tokens = 99 }
"""


def write(home: Home, text: str, *, project: bool = False, name: str = "review") -> Path:
    folder = home.project / ".segue" / "templates" if project else home.config_file.parent / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def test_a_template_gives_what_the_flags_do_not(cloud: Cloud, asked: Here) -> None:
    write(cloud.home, REVIEW)
    told = asked("-t", "review", "--var", "price=5", "-o", "max_tokens=7", stdin="a $change")
    assert told.code == Exit.OK
    body = cloud.bodies()[-1]
    assert body["model"] == "claude-sonnet-4-5"
    assert (body["temperature"], body["max_tokens"]) == (0.5, 7)
    assert "Be brief." in json.dumps(body["system"])
    assert "Review for a careful reader, 5$: a $change" in json.dumps(body["messages"])
    assert "Review a change" in asked("templates").out


def test_flags_are_saved_as_a_template_and_sent_by_its_name(cloud: Cloud, asked: Here) -> None:
    saved = asked(
        *("--save", "brief", "-m", "anthropic/claude-sonnet-4-5", "-s", 'Say "yes".', "-o", "temperature=0"),
        *("--var", "tone=kind", "Shorten in a $tone way: $input"),
    )
    assert saved.code == Exit.OK, saved.err
    assert "segue -t brief" in saved.err
    assert not cloud.bodies(), "nothing is sent"
    assert asked("-t", "brief", "a long text").code == Exit.OK
    body = cloud.bodies()[-1]
    assert (body["model"], body["temperature"]) == ("claude-sonnet-4-5", 0)
    assert json.dumps('Say "yes".')[1:-1] in json.dumps(body["system"])
    assert "Shorten in a kind way: a long text" in json.dumps(body["messages"])
    assert "exists already" in asked("--save", "brief", "again").err
    assert "cannot be the name" in asked("--save", "../x", "again").err
    assert "nothing to save" in asked("--save", "empty").err


def test_a_schema_of_a_template_holds(cloud: Cloud, asked: Here) -> None:
    write(
        cloud.home,
        'prompt = "Count"\nschema = { type = "object", properties = { n = { type = "integer" } } }\n',
    )
    cloud.reply('{"n": 7}')
    told = asked("-t", "review", "--json")
    assert json.loads(told.out)["structured_output"] == {"n": 7}


def test_a_template_of_a_project_is_not_used_before_it_is_trusted(cloud: Cloud, asked: Here) -> None:
    file = write(cloud.home, 'prompt = "Evil"\n', project=True)
    told = asked("-t", "review")
    assert told.code == Exit.USAGE
    assert "not trusted" in told.err
    assert "not trusted" in asked("templates").out
    assert cloud.bodies() == []
    assert asked("trust").code == Exit.OK
    assert asked("-t", "review").code == Exit.OK
    file.write_text('prompt = "More evil"\n')
    assert asked("-t", "review").code == Exit.USAGE
    write(cloud.home, 'prompt = "Mine"\n')
    asked("-t", "review")
    assert "Mine" in json.dumps(cloud.bodies()[-1])  # the user's own comes first


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-t", "reviw"), 'Did you mean "review"?'),
        (("-t", "review", "x"), "Variables are missing: price"),
        (("-t", "review", "x", "--var", "price=1", "--var", "tone=kind"), "no variable tone"),
        (("-t", "review", "--var", "price=1"), "needs a text"),
        (("-t", "wrong", "x"), "wrong.toml"),
        (("-t", "../review", "x"), "no template"),
        (("x", "--var", "a=b"), "needs a template"),
    ],
)
def test_what_is_wrong_with_a_template_is_reported_and_nothing_is_sent(
    cloud: Cloud, asked: Here, words: tuple[str, ...], reason: str
) -> None:
    write(cloud.home, REVIEW)
    write(cloud.home, "promt = 1\n", name="wrong")
    told = asked(*words)
    assert told.code == (Exit.CONFIG if "wrong" in words else Exit.USAGE)
    assert reason in told.err
    assert cloud.bodies() == []


def test_a_text_is_put_in_once_and_never_read_as_a_template() -> None:
    template = Template(prompt="A: $input. B: $x.", variables={"x": "$input"})
    assert template.fill("$x $$", {}) == "A: $x $$. B: $input."
    assert Template(prompt="First.").fill("More", {}) == "First.\n\nMore"
    with pytest.raises(UsageError):
        Template(prompt="$a").fill("", {})
