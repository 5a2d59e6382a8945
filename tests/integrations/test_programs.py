"""The programs for frameworks in examples/frameworks: each runs as it is, and stands on its page."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = sorted((ROOT / "examples" / "frameworks").glob("*.py"))
PACKAGES = {
    "with_ai_sdk": "starlette",
    "with_langgraph": "langgraph",
    "with_llm": "llm",
    "with_openai_agents": "agents",
    "with_pydantic_ai": "pydantic_ai",
}
MOST_LINES = 60
every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)


def shown(program: Path) -> tuple[str, str]:
    """The program, and what it prints as its last lines show."""
    text, _, printed = program.read_text("utf-8").partition("\n# Prints:\n")
    return text, "".join(line.removeprefix("# ") for line in printed.splitlines(keepends=True))


@every_program
def test_a_program_prints_what_it_shows(program: Path, tmp_path: Path) -> None:
    if find_spec(PACKAGES[program.stem]) is None:
        pytest.skip(f"{PACKAGES[program.stem]} is not installed: make frameworks")
    copy = tmp_path / "pasted.py"
    copy.write_text(program.read_text("utf-8"))
    done = subprocess.run(  # noqa: S603 - our own examples
        [sys.executable, str(copy)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout == shown(program)[1], done.stderr


@every_program
def test_a_program_is_short_and_stands_on_its_page(program: Path) -> None:
    text, _ = shown(program)
    assert len(text.splitlines()) <= MOST_LINES
    page = (ROOT / "docs" / "in-your-program.md").read_text("utf-8")
    assert f"examples/frameworks/{program.name}" in page
