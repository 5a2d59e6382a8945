"""Write docs/emulators.md: which check enforces which rule of the rulebooks, and which tests show it.

python -m scripts.emulator_rules --write    write the document anew
python -m scripts.emulator_rules            fail if it is stale, or if an H rule has no test
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections import defaultdict
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import pytest

import segue.emulators
from segue.emulators.rules import REGISTRY, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "emulators.md"
TESTS = ROOT / "tests" / "emulators"
INTRODUCTION = ROOT / "scripts" / "emulators_introduction.md"


class Collector:
    """A pytest plugin that notes which tests carry which rule."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            where = item.path.relative_to(TESTS).as_posix()
            name = f"{where}::{item.name.partition('[')[0]}"
            for mark in item.iter_markers("rule"):
                for rule_id in mark.args:
                    if name not in self.tests[rule_id]:
                        self.tests[rule_id].append(name)


def rules() -> list[Rule]:
    """Every registered rule, once per check."""
    for module in walk_packages(segue.emulators.__path__, "segue.emulators."):
        if "pytest_plugin" not in module.name:
            import_module(module.name)
    return sorted(set(REGISTRY), key=lambda rule: (_order(rule.id), rule.module, rule.function))


def _order(rule_id: str) -> tuple[str, ...]:
    return tuple(part.zfill(4) if part.isdigit() else part for part in re.split(r"(\d+)", rule_id))


def tests_by_rule() -> Mapping[str, list[str]]:
    collector = Collector()
    os.chdir(ROOT)
    with redirect_stdout(StringIO()) as said:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(TESTS)],
            plugins=[collector],
        )
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"the tests cannot be collected:\n{said.getvalue()}")
    return collector.tests


def untested(tests: Mapping[str, list[str]]) -> list[str]:
    return sorted(
        {rule.id for rule in rules() if rule.confidence == "H" and not tests.get(rule.id)}, key=_order
    )


def document(tests: Mapping[str, list[str]]) -> str:
    lines = [INTRODUCTION.read_text("utf-8").rstrip(), "", "## Rules, checks and tests", ""]
    lines += [
        "H rules are always enforced, M rules when strict, L rules only when asked for by id.",
        "Ids that begin with REC were learned from recordings; ids that end in -00 are the shape of the envelope.",
        "",
        "| rule | | check | tests |",
        "|---|---|---|---|",
    ]
    for rule in rules():
        check = f"`{rule.module.removeprefix('segue.emulators.')}.{rule.function}`"
        shown = "<br>".join(f"`{name}`" for name in sorted(tests.get(rule.id, ())))
        lines.append(f"| {rule.id} | {rule.confidence} | {check} | {shown} |")
    return "\n".join([*lines, "", *_mismatches()])


def _mismatches() -> list[str]:
    table = tomllib.loads((TESTS / "mismatches.toml").read_text("utf-8"))["mismatch"]
    lines = [
        "## Where the emulators and recorded traffic differ",
        "",
        "Every other recording gets the verdict it got from the real API.",
        "",
        "| recordings | why |",
        "|---|---|",
    ]
    for group in table:
        names = "<br>".join(f"`{name}`" for name in group["recordings"])
        lines.append(f"| {names} | {group['reason']} |")
    return [*lines, ""]


def main(arguments: list[str]) -> int:
    tests = tests_by_rule()
    text = document(tests)
    missing = untested(tests)
    if "--write" in arguments:
        DOCUMENT.write_text(text, "utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text("utf-8") != text:
        print(f"{DOCUMENT.name} is stale: run python -m scripts.emulator_rules --write")
        return 1
    if missing:
        print("H rules that no test shows: " + ", ".join(missing))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
