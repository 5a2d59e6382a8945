"""The instructions of a project (AGENTS.md and similar files), read into the system prompt.

Until the project is trusted, they come from regular files inside it only: a link or a path could lead to any file of
the user's, and send it to a provider.
"""

from __future__ import annotations

from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.config.paths import project_directories, project_file
from segue.config.trust import is_trusted

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES: Final = 32 * 1024
"""Of one file: more would take too much of the context window."""


@final
class Instructions(Struct, frozen=True):
    """The files that are read, and those that are not because the project is not trusted."""

    files: tuple[Path, ...] = ()
    ignored: tuple[Path, ...] = ()

    def lines(self) -> list[str]:
        """Both, for the user."""
        read = [f"Instructions of the project: {', '.join(map(str, self.files))}"] if self.files else []
        return read + [
            f"{file} is a link or outside of the project, so it is not read as instructions. To use it: "
            "name it in ui.instructions of your own configuration, or trust the project's: segue trust"
            for file in self.ignored
        ]


def system_prompt(own: str, instructions: Instructions, *, append: str = "") -> str:
    """The user's own system prompt, then the project's instructions, then --append-system."""
    parts = [own, *map(_section, instructions.files), append]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def find_instructions(directory: Path, names: Sequence[str], *, named_by_project: bool) -> Instructions:
    """From the root of the project down to this directory, so that the nearest file comes last."""
    folders = project_directories(directory)[::-1]
    config = project_file(directory)
    is_project_trusted = config is not None and is_trusted(config)
    found = {folder / name: name for folder in folders for name in names}
    files = [file for file in found if file.is_file()]
    read = [
        file
        for file in files
        if is_project_trusted
        or _is_plain(file, folders[0] if named_by_project else None)
        or (not named_by_project and Path(found[file]).is_absolute())
    ]
    return Instructions(tuple(read), tuple(file for file in files if file not in read))


def _is_plain(file: Path, root: Path | None) -> bool:
    """Whether no link is on the way to it, and it is under the root if there is one."""
    plain = Path(normpath(file))
    return file.resolve() == plain and (root is None or plain.is_relative_to(root))


def _section(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    text = data[:MOST_BYTES].decode("utf-8", "replace").strip()
    cut = (
        f"\n({file.name} is cut here: it is longer than {MOST_BYTES} bytes.)"
        if len(data) > MOST_BYTES
        else ""
    )
    return f"Instructions of the project, from {file.name}:\n\n{text}{cut}" if text else ""
