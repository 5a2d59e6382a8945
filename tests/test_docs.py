"""Every example in the documents works: Python is run as doctests, commands are run as written."""

from __future__ import annotations

import doctest
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _commands(page: Path) -> list[str]:
    """Lines of console blocks that a reader would type."""
    commands: list[str] = []
    inside = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ segue "):
            commands.append(line.removeprefix("$ "))
    return commands


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_on_a_page_does_what_the_page_says(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize(
    ("page", "command"),
    [(page.name, command) for page in PAGES for command in _commands(page)],
)
def test_a_command_on_a_page_can_be_run(page: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    answer = subprocess.run(  # noqa: S603
        [sys.executable, "-m", *shlex.split(command)],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    # 1: the doctor has findings; 62: --strict refuses to lose something
    assert answer.returncode in (0, 1, 62), answer.stderr
    assert "Traceback" not in answer.stderr
