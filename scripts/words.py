"""Looks for words that readers had to read twice, in pages, help texts, errors and docstrings of public names; the list is words.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
_CODE = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
_NOT_OURS = (
    "docs/decisions/",
    "docs/requirements.md",
    "docs/emulator-rules.md",
    "docs/names.md",
    "docs/mutants.md",
)
"""Records of what was decided, and pages that repeat words of others."""
_SHOWN = frozenset({"hint", "help", "description", "epilog"})
"""Keywords of calls whose text a user reads."""


def load_words() -> dict[str, str]:
    with (Path(__file__).parent / "words.toml").open("rb") as file:
        words: dict[str, str] = tomllib.load(file)["words"]
    return words


def pages() -> Iterator[Path]:
    """Every page that is written by hand, and the reference, which is made of docstrings."""
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")]):
        if not str(page.relative_to(ROOT)).startswith(_NOT_OURS) and page.name != "CODE_OF_CONDUCT.md":
            yield page


def shown_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of what a program shows: messages of errors, hints, help texts."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[:1] if name.endswith("Error") or name in ("print_status", "paragraph") else []
        for value in [*first, *(one.value for one in node.keywords if one.arg in _SHOWN)]:
            for text in ast.walk(value):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text.lineno, text.value


def findings(words: dict[str, str]) -> Iterator[str]:
    patterns = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): use for word, use in words.items()}
    for page in pages():
        text = page.read_text("utf-8")
        kept = _CODE.sub(lambda found: "\n" * found[0].count("\n"), text)
        for pattern, use in patterns.items():
            for found in pattern.finditer(kept):
                line = kept.count("\n", 0, found.start()) + 1
                yield f'{page.relative_to(ROOT)}:{line}: "{found[0]}": write {use}'
    for module in sorted((ROOT / "src" / "segue").rglob("*.py")):
        if module.is_relative_to(ROOT / "src" / "segue" / "emulators"):  # they use the words of providers
            continue
        for line, shown in shown_texts(module.read_text("utf-8")):
            for pattern, use in patterns.items():
                if seen := pattern.search(shown):
                    yield f'{module.relative_to(ROOT)}:{line}: "{seen[0]}": write {use}'


def main() -> int:
    found = list(findings(load_words()))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
