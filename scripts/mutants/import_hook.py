"""A pytest plugin that imports one module with a change: SEGUE_MUTANT names it."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.mutants import profile  # noqa: F401 - registers the settings of hypothesis
from scripts.mutants.changes import mutated

if TYPE_CHECKING:
    from types import CodeType

_FILE, _, _NUMBER = os.environ["SEGUE_MUTANT"].rpartition(":")
_PATH = (Path(__file__).resolve().parents[2] / _FILE).resolve()
_ORIGINAL = SourceFileLoader.get_code


def _get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
    if Path(self.path).resolve() != _PATH:
        return _ORIGINAL(self, fullname)
    tree = mutated(_PATH.read_text("utf-8"), int(_NUMBER))
    return compile(tree, str(_PATH), "exec", dont_inherit=True)


SourceFileLoader.get_code = _get_code  # type: ignore[assignment, method-assign]
