"""What a command leaves behind for programs outside of the sandbox to run or obey: it is set aside after the command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STOPPED: Final = ".stopped-by-segue"
"""What the name of something ends with that was set aside."""


def set_aside(path: Path) -> None:
    """Give it a name that nobody looks for."""
    for number in range(1_000):
        aside = path.with_name(f"{path.name}{STOPPED}{number or ''}")
        if not aside.exists() and not aside.is_symlink():
            path.rename(aside)
            return


@final
class AbsentGuard:
    """Protected places that are not there yet. No mount and no rule can protect those, so one that a command has made is
    set aside."""

    def __init__(self, places: Iterable[Path], workspace: str) -> None:
        self._absent = [place for place in places if not os.path.lexists(place)]
        self._workspace = workspace

    def enforce(self) -> list[str]:
        """One line for each that was made."""
        made = [place for place in self._absent if os.path.lexists(place)]
        for place in made:
            set_aside(place)
        return [
            f"a file that other programs obey: {os.path.relpath(place, self._workspace)}"
            f" (set aside; allow it before with: /sandbox allow {place})"
            for place in made
        ]
