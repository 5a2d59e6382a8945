"""Rules about the shape of the code that no linter checks."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripts import namespaces

import segue

SOURCE = Path(segue.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES})
DIALECTS = [
    folder
    for folder in sorted((SOURCE / "dialects").iterdir())
    if folder.is_dir() and (folder / "wire.py").exists()
]
PARTS = {"wire.py", "rules.py", "request.py", "stream.py", "reply.py", "errors.py", "server.py"}


@dataclass(frozen=True)
class _Facts:
    """What the tests below ask of a module. Its syntax tree is not kept: 700 of them slow down the rest of the run."""

    lines: int
    docstring: str | None
    classes: list[str]
    aliases: list[str]
    offered: list[str]


def _facts(module: Path) -> _Facts:
    text = module.read_text()
    parsed = ast.parse(text)
    return _Facts(
        len(text.splitlines()),
        ast.get_docstring(parsed),
        [node.name for node in parsed.body if isinstance(node, ast.ClassDef)],
        [
            ast.unparse(node.target)
            for node in parsed.body
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
        ],
        [
            name
            for node in parsed.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            for name in ast.literal_eval(node.value)
        ],
    )


@pytest.fixture(scope="module")
def facts() -> dict[Path, _Facts]:
    return {module: _facts(module) for module in MODULES}


def test_a_module_has_one_subject_told_in_its_first_lines_and_at_most_700_lines(
    facts: dict[Path, _Facts],
) -> None:
    assert [module for module, told in facts.items() if not told.docstring] == []
    assert [module for module, told in facts.items() if told.lines > 700] == []


@pytest.mark.parametrize("folder", DIALECTS, ids=lambda path: path.name)
def test_every_dialect_has_the_same_files(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.py")} >= PARTS


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "common", "base", "manager", "handler", "misc"}
    assert [path for path in MODULES if path.stem in drawers] == []


NOUNS_AND_TERMS = {
    "blocking": "BlockingChat, the chat for programs without an event loop",
    "calling": "tool calling is the name of the thing",
    "embedded": "the embedded model",
    "learned": "learned facts: what providers' answers taught about their models",
    "listing": "a noun",
    "pairing": "a noun: calls and their results",
    "reasoning": "a noun: what the block is called",
    "routing": "a noun: who answers",
    "scripted": "ScriptedProvider",
    "testing": "the package that users import in their tests",
    "thinking": "the word of that provider's API",
    "timing": "a noun: what took how long",
    "wording": "a noun: the sentences of an API",
}
"""Words that end like a gerund or a participle, and why a module may still be named so."""


def test_modules_are_nouns() -> None:
    words = {path.stem.split("_")[-1] for path in [*MODULES, *FOLDERS]}
    endings = {word for word in words if word.endswith(("ing", "ed")) and word not in {"embed"}}
    assert endings <= set(NOUNS_AND_TERMS)


def test_no_two_modules_of_a_folder_are_near_twins() -> None:
    for folder in FOLDERS:
        names = {path.stem for path in folder.iterdir() if path in MODULES or path in FOLDERS}
        forms = {name + ending for name in names for ending in ("s", "es", "ed", "ing")}
        forms |= {name.removesuffix("y") + "ies" for name in names if name.endswith("y")}
        forms |= {name.removesuffix("ed") + "ing" for name in names if name.endswith("ed")}
        assert not names & forms, folder


PARTS_OF_A_DIALECT = {"ReplyDecoder", "ReplyEncoder", "ReplyReader"}
"""Every dialect has its own, under the same name."""


def _vocabulary(module: Path) -> str:
    """Within which a name means one thing: a wire's shapes are always written `wire.X`, in the words of its API, and the
    emulators are a second opinion in words of their own."""
    path = module.relative_to(SOURCE)
    if path.parts[0] == "emulators" or path.name == "wire.py":
        return str(path.parent)
    return "segue"


def test_one_class_name_means_one_thing(facts: dict[Path, _Facts]) -> None:
    classes: dict[tuple[str, str], list[Path]] = {}
    aliases: dict[tuple[str, str], list[Path]] = {}
    for module, told in facts.items():
        for name in told.classes:
            classes.setdefault((_vocabulary(module), name), []).append(module)
        for name in told.aliases:
            aliases.setdefault((_vocabulary(module), name), []).append(module)
    ambiguous = {
        key[1]
        for key, modules in classes.items()
        if len({*modules, *aliases.get(key, ())}) > 1 and not key[1].startswith("_")
    }
    assert ambiguous <= PARTS_OF_A_DIALECT


def test_what_a_module_offers_is_sorted(facts: dict[Path, _Facts]) -> None:
    assert [module for module, told in facts.items() if told.offered != sorted(told.offered)] == []


def test_type_checkers_read_the_names_that_exist() -> None:
    assert namespaces.main([]) == 0


HEAVY = (
    "aiohttp",
    "cryptography",
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


@pytest.mark.parametrize(("extra", "library"), [("postgres", "psycopg"), ("otel", "opentelemetry-sdk")])
def test_a_library_whose_inner_parts_are_used_is_taken_up_to_a_known_version(
    extra: str, library: str
) -> None:
    """Decision 30: its next major version may arrange them in another way."""
    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    (needed,) = [each for each in project["optional-dependencies"][extra] if each.startswith(library)]
    assert ",<" in needed
