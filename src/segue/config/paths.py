"""Where settings, keys, trust and sessions are kept, and which files of one's own have a name."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from platformdirs import PlatformDirs

PROJECT_FILES = ("segue.toml", ".segue/config.toml")


def user_file() -> Path:
    """The user's own file; SEGUE_CONFIG names another."""
    given = os.environ.get("SEGUE_CONFIG", "")
    return Path(given).expanduser() if given else _directories().user_config_path / "config.toml"


def project_file(folders: Iterable[Path], names: Sequence[str] = PROJECT_FILES) -> Path | None:
    """The nearest file of a project that has one of these names."""
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def project_directories(start: Path) -> list[Path]:
    """From here up to the root of the git work tree; without one, only here: a parent directory may belong to somebody else.
    So may one with a `.git` in it: the search ends at a directory of another owner."""
    here = start.resolve()
    owner = here.stat().st_uid
    above = list(takewhile(lambda directory: directory.stat().st_uid == owner, [here, *here.parents]))
    root = next((at for at, directory in enumerate(above) if (directory / ".git").exists()), 0)
    return above[: root + 1]


class NamedFiles(NamedTuple):
    """Files of one's own that are used by their names: in a folder beside the user's file, and in one of the project."""

    kind: str
    ending: str
    form: str
    """What a name looks like."""

    def user_folder(self) -> Path:
        return user_file().parent / f"{self.kind}s"

    def in_project(self, directory: Path) -> list[Path]:
        return sorted((directory / ".segue" / f"{self.kind}s").glob(f"*{self.ending}"))

    def find(self, start: Path) -> dict[str, Path]:
        """Every file by its name without the ending: the user's first, then those of the project, the nearest first."""
        files = sorted(self.user_folder().glob(f"*{self.ending}"))
        for directory in project_directories(start):
            files += self.in_project(directory)
        found: dict[str, Path] = {}
        for file in files:
            if re.fullmatch(self.form, file.stem) and not file.is_symlink():
                found.setdefault(file.stem, file)
        return found


TEMPLATES = NamedFiles("template", ".toml", r"[a-z0-9][a-z0-9_-]*")
AGENTS = NamedFiles("agent", ".md", r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def keys_file() -> Path:
    return _directories().user_data_path / "keys.json"


def trust_file() -> Path:
    return _directories().user_data_path / "trust.json"


def history_file() -> Path:
    """What was typed at the prompt, for the arrow keys."""
    return _directories().user_data_path / "history"


def sessions_directory(given: str = "") -> Path:
    return Path(given).expanduser() if given else _directories().user_data_path / "sessions"


def batches_directory() -> Path:
    """One file for each batch."""
    return _directories().user_data_path / "batches"


def moved_sessions_directory() -> Path:
    """What `segue move` keeps of sessions, for their way back."""
    return _directories().user_data_path / "moved-sessions"


def gateway_directory(given: str = "") -> Path:
    """What the gateway remembers, and the key that it is encrypted with."""
    return Path(given).expanduser() if given else _directories().user_data_path / "gateway"


def mcp_lists_directory() -> Path:
    """What MCP servers offer, so that they need not be started to know it."""
    return _directories().user_cache_path / "mcp"


def outputs_directory() -> Path:
    """Outputs of tools that were too long for a model."""
    return _directories().user_data_path / "outputs"


def _directories() -> PlatformDirs:
    import platformdirs  # noqa: PLC0415 - `segue --help` does not look for files

    return platformdirs.PlatformDirs("segue")
