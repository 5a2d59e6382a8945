"""Rules about the shape of the code that no linter checks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import namespaces

import segue

SOURCE = Path(segue.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
DIALECTS = [
    folder
    for folder in sorted((SOURCE / "dialects").iterdir())
    if folder.is_dir() and (folder / "wire.py").exists()
]
SIX = {"wire.py", "rules.py", "request.py", "stream.py", "reply.py", "errors.py"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_has_one_subject_told_in_its_first_lines_and_at_most_400_lines(module: Path) -> None:
    text = module.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("folder", DIALECTS, ids=lambda path: path.name)
def test_every_dialect_has_the_same_six_files(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.py")} >= SIX


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "common", "base", "manager", "handler", "misc"}
    assert [path for path in MODULES if path.stem in drawers] == []


def test_type_checkers_read_the_names_that_exist() -> None:
    assert namespaces.main([]) == 0


HEAVY = (
    "aiohttp",
    "genai_prices",
    "jsonschema_rs",
    "keyring",
    "mcp",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "sqlite3",
    "uvicorn",
    "xllamacpp",
)
"""Modules that take long to load, so they are loaded by those who need them."""


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import segue", ("msgspec", "segue.transcript", "segue.dialects", "argparse", "asyncio", *HEAVY)),
        ("from segue.cli import main; main(['--version'])", ("msgspec", "segue.dialects", "asyncio", *HEAVY)),
        ("from segue.cli import main; main(['--help'])", ("msgspec", "segue.dialects", "asyncio", *HEAVY)),
        ("from segue import render", ("segue.dialects", "segue.interop", "asyncio", *HEAVY)),
        ("from segue import Chat", HEAVY),
        ("import segue.emulators", ("msgspec", "asyncio", *HEAVY)),
        (
            "import segue.providers, segue.routing, segue.tools",
            ("msgspec", "segue.dialects", "asyncio", *HEAVY),
        ),
        ("from segue.stores import MemoryStore", HEAVY),
        ("from segue import convert", HEAVY),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys\n{statement}\nsys.stderr.write(' '.join(sys.modules))"
    answer = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    loaded = set(answer.stderr.split())
    assert loaded.isdisjoint(heavy)
