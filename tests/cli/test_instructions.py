"""A folder that nobody trusts cannot have files read as instructions that are not its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit
from segue.cli.instructions import MOST_BYTES, find_instructions, system_prompt

SECRET = "the-secret-of-the-user"  # noqa: S105
OURS = "AGENTS.md"


def link_to_a_file(project: Path, secret: Path) -> None:
    (project / OURS).symlink_to(secret)


def link_upwards(project: Path, secret: Path) -> None:
    (project / OURS).symlink_to(Path("..") / secret.name)


def link_to_a_link(project: Path, secret: Path) -> None:
    (project / "inner").symlink_to(secret)
    (project / OURS).symlink_to("inner")


def link_to_a_file_of_the_project(project: Path, secret: Path) -> None:
    (project / ".env").write_text(secret.read_text())
    (project / OURS).symlink_to(".env")


def linked_folder(project: Path, secret: Path) -> None:
    (project / "docs").symlink_to(secret.parent)
    named(f"docs/{secret.name}")(project, secret)


def second_name(project: Path, secret: Path) -> None:
    os.link(secret, project / OURS)


def secret_of_the_project(project: Path, secret: Path) -> None:
    (project / ".env").write_text(secret.read_text())
    named(".env")(project, secret)


def named(text: str) -> Callable[[Path, Path], None]:
    def write(project: Path, secret: Path) -> None:
        name = text.replace("SECRET", str(secret))
        (project / "segue.toml").write_text(f"[ui]\ninstructions = [{json.dumps(name)}]\n")

    return write


@pytest.mark.parametrize(
    "attack",
    [
        *(link_to_a_file, link_upwards, link_to_a_link, link_to_a_file_of_the_project, linked_folder),
        *(second_name, secret_of_the_project),
        *(named("SECRET"), named("../secret.txt"), named("x/../../secret.txt")),
    ],
)
def test_a_strangers_folder_sends_no_file_of_the_users(
    cloud: Cloud, asked: Here, attack: Callable[[Path, Path], None]
) -> None:
    secret = cloud.home.path / "secret.txt"
    secret.write_text(SECRET)
    (cloud.home.project / "x").mkdir()
    attack(cloud.home.project, secret)
    told = asked("hi")
    assert told.code == Exit.OK, told.err
    assert SECRET not in json.dumps(cloud.bodies())
    assert "not read as instructions" in told.err or "ui.instructions (line 2)" in told.err


def test_what_is_read_is_named(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / OURS).write_text("Use tabs.")
    told = asked("hi")
    assert f"Instructions of the project: {cloud.home.project / OURS}" in told.err
    assert "Use tabs." in json.dumps(cloud.bodies()[-1])
    assert "Instructions" not in asked("hi", "--bare").err


def test_a_trusted_project_may_name_files_elsewhere(cloud: Cloud, asked: Here) -> None:
    secret = cloud.home.path / "secret.txt"
    secret.write_text(SECRET)
    named("SECRET")(cloud.home.project, secret)
    asked("trust")
    asked("hi")
    assert SECRET in json.dumps(cloud.bodies()[-1])


def test_the_user_may_name_files_elsewhere(tmp_path: Path) -> None:
    project, rules = tmp_path / "project", tmp_path / "rules.md"
    project.mkdir()
    rules.write_text("Be brief.")
    for name in (str(rules), "../rules.md"):
        found = find_instructions([project], [name], trusted=False)
        assert "Be brief." in system_prompt("", found)


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / OURS).write_text("x" * (MOST_BYTES + 1))
    text = system_prompt("", find_instructions([tmp_path], [OURS], trusted=False))
    assert text.count("x" * MOST_BYTES) == 1
    assert "is cut here" in text


def test_what_is_no_file_is_no_instruction(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / OURS)
    for trusted in (False, True):
        found = find_instructions([tmp_path], [OURS], trusted=trusted)
        assert found.texts == {}
        (refusal,) = found.refusals
        assert refusal.startswith(f"{tmp_path / OURS} is not read")


def test_a_link_that_takes_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    """The way to a file is walked without links, so nothing can be put in its place after a check."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rules.md").write_text(SECRET)
    project = tmp_path / "project"
    project.mkdir()
    (project / "docs").symlink_to("../elsewhere")
    found = find_instructions([project], ["docs/rules.md"], trusted=False)
    assert found.texts == {}
    (refusal,) = found.refusals
    assert refusal.startswith(f"{project / 'docs/rules.md'} is not read")
    assert SECRET in system_prompt("", find_instructions([project], ["docs/rules.md"], trusted=True))


def test_scripts_read_which_files_are_used_and_what_is_ignored(cloud: Cloud, asked: Here) -> None:
    (cloud.home.project / OURS).write_text("Use tabs.")
    (cloud.home.project / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "false"}}}')
    cloud.home.configure_project('model = "evil/model"\n')
    lines = [json.loads(line) for line in asked("hi", "--output-format", "stream-json").out.splitlines()]
    assert lines[0]["instructions"] == [str(cloud.home.project / OURS)]
    for event in (lines[0], lines[-1], json.loads(asked("hi", "--json").out)):
        settings, servers = event["ignored"]
        assert "model (line 1)" in settings
        assert ".mcp.json is not trusted" in servers
    told = asked("hi")
    assert "model (line 1)" in told.err
    assert ".mcp.json is not trusted" in told.err
