"""The instructions of a project (AGENTS.md and similar files), read into the system prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.config.paths import project_directories

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_BYTES: Final = 32 * 1024
"""Of one file: more would take too much of the context window."""


def system_prompt(own: str, *, directory: Path, names: Sequence[str] = (), append: str = "") -> str:
    """The user's own system prompt, then the project's instructions, then --append-system."""
    parts = [own, *(_section(file) for file in instruction_files(directory, names)), append]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def instruction_files(directory: Path, names: Sequence[str]) -> list[Path]:
    """From the root of the project down to this directory, so that the nearest file comes last."""
    above = reversed(project_directories(directory))
    return [folder / name for folder in above for name in names if (folder / name).is_file()]


def _section(file: Path) -> str:
    data = file.read_bytes()
    text = data[:MOST_BYTES].decode("utf-8", "replace").strip()
    cut = (
        f"\n({file.name} is cut here: it is longer than {MOST_BYTES} bytes.)"
        if len(data) > MOST_BYTES
        else ""
    )
    return f"Instructions of the project, from {file.name}:\n\n{text}{cut}" if text else ""
