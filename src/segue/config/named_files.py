"""Files of one's own that are used by their names: the user's as they are, a project's once they are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.config.paths import project_directories
from segue.config.trust import is_trusted
from segue.errors import UsageError

if TYPE_CHECKING:
    import re
    from pathlib import Path


def named_files(users: Path, below: str, form: re.Pattern[str], ending: str, start: Path) -> dict[str, Path]:
    """Every file by its name without the ending: the user's first, then those of the project, the nearest first."""
    found: dict[str, Path] = {}
    for folder in (users, *(directory / below for directory in project_directories(start))):
        for file in sorted(folder.glob(f"*{ending}")) if folder.is_dir() else ():
            if form.fullmatch(file.stem) and not file.is_symlink():
                found.setdefault(file.stem, file)
    return found


def read_trusted(file: Path, users: Path, kind: str) -> bytes:
    """Raises UsageError for a file of a project that is not trusted."""
    data = file.read_bytes()
    if file.parent != users and not is_trusted(file, data):
        raise UsageError(
            f"{file} is not trusted, so it is not used.",
            code=f"untrusted_{kind}",
            hint="Read it. To use it: segue trust",
        )
    return data
