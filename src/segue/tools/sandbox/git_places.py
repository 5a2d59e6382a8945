"""The git repository of a workspace: what of it commands may write, and what git would run later, outside of any sandbox.

Hooks and some settings in a repository are programs that git starts for whoever uses it next. A command must be able to
commit, but not to leave such a program behind.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, final

from msgspec import Struct

_HARMLESS: Final = re.compile(
    r"user\.(?:name|email|signingkey)|remote\..*\.(?:url|fetch|pushurl|push|mirror|prune|tagopt)"
    r"|branch\..*\.(?:remote|merge|rebase|pushremote|description)|submodule\..*\.(?:url|active|branch)"
    r"|core\.(?:bare|filemode|repositoryformatversion|logallrefupdates|ignorecase|precomposeunicode|autocrlf|eol"
    r"|symlinks|sharedrepository|sparsecheckout|sparsecheckoutcone|abbrev|quotepath|untrackedcache|safecrlf)"
    r"|diff\.(?!external$)[\w-]+|init\.defaultbranch"
    r"|(?:pull|push|fetch|merge|rebase|color|advice|log|status|commit|tag|index|gc|pack|feature|extensions|lfs|i18n"
    r"|rerere|column|format|blame|stash)\.[\w-]+",
    re.IGNORECASE,
)
"""A list of what is harmless: nobody knows all settings that run something, and each version has more."""
_SECTION: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_MAX_BYTES: Final = 1_000_000
_STOPPED: Final = ".stopped-by-segue"


@final
class GitPlaces(Struct, frozen=True):
    """Folders that git writes, and those that hold programs of a repository."""

    folders: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


def git_places(workspace: str) -> GitPlaces:
    """Of the repository that a workspace is in, also as one of several work trees."""
    for folder in (Path(workspace), *Path(workspace).parents):
        entry = folder / ".git"
        if entry.is_dir() and not entry.is_symlink():
            return _places([entry])
        if entry.is_file():
            return _places(_of_work_tree(entry))
        if _owner(folder) != _owner(Path(workspace)):
            break
    return GitPlaces()


def _places(folders: list[Path]) -> GitPlaces:
    return GitPlaces(tuple(map(str, folders)), tuple(str(folder / "hooks") for folder in folders))


def _of_work_tree(entry: Path) -> list[Path]:
    """The folders that a `.git` file leads to. Whoever may write in the workspace can write such a file, so it counts only if
    the repository names this very work tree in turn, which it alone can."""
    try:
        named = entry.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        own = (entry.parent / named).resolve()
        back = Path((own / "gitdir").read_text("utf-8", "surrogateescape").strip()).resolve()
        common = (own / (own / "commondir").read_text("utf-8", "surrogateescape").strip()).resolve()
    except (OSError, ValueError):
        return []
    is_repository = (common / "HEAD").is_file() and (common / "objects").is_dir()
    return [common] if back == entry.resolve() and is_repository and common in own.parents else []


def _owner(folder: Path) -> int:
    try:
        return folder.stat().st_uid
    except OSError:
        return -1


@final
class GitGuard:
    """The hooks and settings of a repository before a command; afterwards what would run a program is taken away."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._hooks, self._settings = self._state()

    def enforce(self) -> list[str]:
        """Undo what git would run for the user later; one line for each."""
        hooks, settings = self._state()
        undone = []
        for path, data in hooks.items():
            if self._hooks.get(path) != data:
                _set_aside(path)
                undone.append(f"a program for git to run: {_relative(path, self._workspace)}")
        for path, data in settings.items():
            before = self._settings.get(path, b"")
            changed = sorted(_entries(data) - _entries(before))
            if programs := [name for name, _ in changed if not _is_harmless(name)]:
                _set_aside(path)
                if before:
                    path.write_bytes(before)
                undone.append(f"settings of git that run programs: {', '.join(dict.fromkeys(programs))}")
        return undone

    def _state(self) -> tuple[dict[Path, bytes], dict[Path, bytes]]:
        hooks: dict[Path, bytes] = {}
        settings: dict[Path, bytes] = {}
        for folder in map(Path, git_places(self._workspace).folders):
            if (folder / "hooks").is_dir():
                names = sorted((folder / "hooks").iterdir())
                hooks |= {
                    path: _content(path)
                    for path in names
                    if path.suffix != ".sample" and _STOPPED not in path.name
                }
            for name in ("config", "config.worktree"):
                if (folder / name).is_file():
                    settings[folder / name] = (folder / name).read_bytes()
        return hooks, settings


def _is_harmless(name: str) -> bool:
    return _HARMLESS.fullmatch(name) is not None


def _entries(data: bytes) -> set[tuple[str, str]]:
    """Names and values of settings; what cannot be read is one of its own, which is not harmless."""
    section, found = "", set()
    for line in re.sub(r"\\\n", "", data.decode("utf-8", "replace")).split("\n"):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        head = _SECTION.match(text)
        if head is not None:
            section = f"{head[1]}.{head[2]}" if head[2] is not None else head[1]
            text = text[head.end() :].strip()
            if not text or text[0] in "#;":
                continue
        name, _, value = text.partition("=")
        found.add((f"{section}.{name.strip().lower()}", value.strip()))
    return found


def _content(path: Path) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            return os.fsencode(f"link or folder {os.readlink(path) if path.is_symlink() else path}")  # noqa: PTH115
        with path.open("rb") as file:
            return file.read(_MAX_BYTES) + str(path.stat().st_size).encode()
    except OSError:
        return b""


def _set_aside(path: Path) -> None:
    for number in range(1_000):
        aside = path.with_name(f"{path.name}{_STOPPED}{number or ''}")
        if not aside.exists() and not aside.is_symlink():
            path.rename(aside)
            return


def _relative(path: Path, workspace: str) -> str:
    return os.path.relpath(path, workspace)
