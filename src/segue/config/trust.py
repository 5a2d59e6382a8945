"""Which project files may do what a stranger's file must not: name programs to run and places to send keys to.

Trust is given to a file as it is: when it changes, it has to be given again. `segue trust` gives it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from segue.config.paths import PROJECT_FILES, project_directories, trust_file
from segue.private_files import write_private

if TYPE_CHECKING:
    from collections.abc import Set
    from pathlib import Path

SettingPath: TypeAlias = tuple[str, ...]

MCP_FILE: Final = ".mcp.json"
GUARDED: Final = frozenset({"approval", "gateway", "mcp", "sessions", "tools"})
"""Whole sections."""
HARMLESS: Final = frozenset({"embedding_model", "model", "timeouts"})
"""All that a project may set for a provider; anything else could send a key or a conversation elsewhere."""


def is_trusted(file: Path) -> bool:
    return _read().get(str(file.resolve())) == _digest(file)


def grant(files: list[Path]) -> None:
    _write({**_read(), **{str(file.resolve()): _digest(file) for file in files}})


def revoke(files: list[Path]) -> None:
    gone = {str(file.resolve()) for file in files}
    _write({name: digest for name, digest in _read().items() if name not in gone})


def files_to_trust(start: Path) -> list[Path]:
    """The files of this project that trust is about, nearest first."""
    return [
        directory / name
        for directory in project_directories(start)
        for name in (*PROJECT_FILES, MCP_FILE)
        if (directory / name).is_file()
    ]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read() -> dict[str, str]:
    try:
        content: Any = json.loads(trust_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    files = content.get("files") if isinstance(content, dict) else None
    return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}


def _write(files: dict[str, str]) -> None:
    write_private(trust_file(), json.dumps({"files": files}, indent=2, sort_keys=True) + "\n")


def guarded_paths(table: dict[str, Any]) -> list[SettingPath]:
    """The settings of a project that need trust."""
    sections = [(section,) for section in table if section in GUARDED]
    providers = table.get("providers")
    settings = [
        ("providers", name, key)
        for name, provider in (providers.items() if isinstance(providers, dict) else ())
        for key in (provider if isinstance(provider, dict) else ())
        if key not in HARMLESS
    ]
    return [*sections, *settings]


def shadowing_names(table: dict[str, Any], providers: Set[str]) -> list[tuple[str, str]]:
    """Aliases and profiles that would answer to the name of a provider, or to provider/model of any."""
    return [
        (section, name)
        for section in ("aliases", "profiles")
        for name in table.get(section, ())
        if "/" in name or ":" in name or name.strip().lower() in providers
    ]
