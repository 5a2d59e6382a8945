"""The instructions of a project (AGENTS.md and similar files), read into the system prompt.

Until the project is trusted, they come from regular files inside it only: a link, a second name of a file or a path
could lead to any file of the user's, and send it to a provider.
"""

from __future__ import annotations

import os
from contextlib import suppress
from os.path import commonpath, lexists, normpath
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES: Final = 32 * 1024
"""Of one file: more would take too much of the context window."""


@final
class Instructions(Struct, frozen=True):
    """The files that are read, and those that are not."""

    texts: dict[Path, str]
    """As they were when the chat began."""
    refusals: tuple[str, ...]
    """A line for each file that is not read."""


def system_prompt(own: str, instructions: Instructions, *, append: str = "") -> str:
    """The user's own system prompt, then the project's instructions, then --append-system."""
    sections = [
        f"Instructions of the project, from {path.name}:\n\n{text}"
        for path, text in instructions.texts.items()
        if text
    ]
    parts = [own, *sections, append]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def find_instructions(folders: Sequence[Path], names: Sequence[str], *, trusted: bool) -> Instructions:
    """`folders`: of the project, the nearest first; its file comes last. `names` are the user's own, or those of a
    project that is trusted."""
    found = {folder / name: name for folder in reversed(folders) for name in names}
    texts: dict[Path, str] = {}
    refusals: list[str] = []
    for path, name in found.items():
        if not lexists(path):
            continue
        anywhere = trusted or Path(name).is_absolute()
        data = _read_anywhere(path) if anywhere else _read_plain(path, folders[-1])
        if data is not None:
            texts[path] = _text(path.name, data)
        else:
            refusals.append(
                f"{path} is not read as instructions: it is a link, has a second name, or is no regular file that can be read. "
                "To use a link, name it in ui.instructions of your own configuration, or trust the project's: segue trust"
            )
    return Instructions(texts, tuple(refusals))


def _read_anywhere(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    with suppress(OSError), path.open("rb") as file:
        return file.read(MOST_BYTES + 1)
    return None


def _read_plain(path: Path, root: Path) -> bytes | None:
    """None unless it is a regular file with one name, and no link is on the way to it."""
    plain = Path(normpath(path))
    if os.open not in os.supports_dir_fd:
        return _read_anywhere(plain) if plain.resolve() == plain else None
    from segue.tools.builtin.workspace import Workspace  # noqa: PLC0415 - most folders have no such file

    try:
        workspace = Workspace(commonpath([root, plain]))  # the user may name ../rules.md
        with workspace.reading(workspace.steps(str(plain))) as file:
            return file.read(MOST_BYTES + 1) if os.fstat(file.fileno()).st_nlink == 1 else None
    except UsageError:
        return None


def _text(name: str, data: bytes) -> str:
    text = data[:MOST_BYTES].decode("utf-8", "replace").strip()
    cut = f"\n({name} is cut here: it is longer than {MOST_BYTES} bytes.)" if len(data) > MOST_BYTES else ""
    return f"{text}{cut}"
