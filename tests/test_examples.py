"""Every program in examples/ runs without a key, and prints what its last lines show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if not path.stem.startswith("test_"))
TESTS = sorted(EXAMPLES.glob("test_*.py"))


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own examples
        [sys.executable, *command],
        cwd=cwd,
        env={"HOME": str(cwd), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def promised(program: Path) -> str:
    """The comment at the end of a program, which shows what it prints."""
    _, _, shown = program.read_text("utf-8").partition("\n# Prints:\n")
    assert shown, "the last lines of an example show what it prints"
    return "".join(line.removeprefix("# ") for line in shown.splitlines(keepends=True))


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_what_it_shows(program: Path, tmp_path: Path) -> None:
    done = run(str(program), cwd=tmp_path)
    assert done.stderr == ""
    assert trimmed(done.stdout) == trimmed(promised(program))


@pytest.mark.parametrize("tests", TESTS, ids=lambda path: path.stem)
def test_the_tests_of_an_agent_pass(tests: Path, tmp_path: Path) -> None:
    done = run("-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", str(tests), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_list_of_examples_is_complete() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in [*PROGRAMS, *TESTS] if f"]({path.name})" not in page] == []
