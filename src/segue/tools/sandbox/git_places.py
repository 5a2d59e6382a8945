"""The git repository of a workspace: what of it commands may write, and what git would run later, outside of any sandbox.

Hooks and some settings in a repository are programs that git starts for whoever uses it next. A command must be able
to commit, but not to leave such a program behind: what it leaves for programs outside to run or obey is set aside
after it.
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_HARMLESS: Final = re.compile(
    r"user\.(?:name|email|signingkey)|remote\..*\.(?:url|fetch|pushurl|push|mirror|prune|tagopt)"
    r"|branch\..*\.(?:remote|merge|rebase|pushremote|description)|submodule\..*\.(?:url|active|branch)"
    r"|core\.(?:bare|filemode|repositoryformatversion|logallrefupdates|ignorecase|precomposeunicode|autocrlf|eol"
    r"|symlinks|sharedrepository|sparsecheckout|sparsecheckoutcone|abbrev|quotepath|untrackedcache|safecrlf)"
    r"|diff\.(?!external$)[\w-]+|init\.defaultbranch|gc\.(?!recentobjectshook$)[\w-]+"
    r"|rebase\.(?!instructionformat$)[\w-]+"
    r"|(?:pull|push|fetch|merge|color|advice|log|status|commit|tag|index|pack|feature|extensions|lfs|i18n"
    r"|rerere|column|format|blame|stash)\.[\w-]+",
    re.IGNORECASE,
)
"""A list of what is harmless: nobody knows all settings that run something, and each version has more."""
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]++|[#;][^\n]*+
    |\[(?P<section>[\w.-]++)(?:[ \t]++"(?P<part>(?:[^"\\\n]|\\[^\n])*+)")?\]
    |(?P<name>[a-z][a-z0-9-]*+)[ \t]*+(?:=(?P<value>(?:[^\\"\#;\n]|\\[\s\S]|"(?:[^"\\\n]|\\[\s\S])*+")*+)(?:[#;][^\n]*+)?)?(?=\n|\Z)""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
"""As git reads its settings. A backslash joins two lines within a value only, and not if another one stands before it."""
_ADDRESSES: Final = re.compile(r"remote\..*\.(?:url|pushurl)", re.IGNORECASE)
_REMOTES: Final = re.compile(r"branch\..*\.(?:remote|pushremote)", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(
    r"(?:https?|ssh|git|git\+ssh|ssh\+git)://[^\"\\]+|[\w@][\w.@-]*:(?!:|//)[^\"\\]+"
)
"""An address on another machine. Git runs the hooks of a repository on this one when something is pushed to it."""
_MAX_BYTES: Final = 1_000_000
_MAX_PATH: Final = 5_000
_MAX_REPOSITORIES: Final = 500
_GIT_LINK: Final = b"\x00\x00\xe0\x00"
"""The mode of an entry of the index that is a repository of its own."""


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


def _repositories(workspace: str) -> list[Path]:
    """Every folder whose hooks and settings git obeys when it is run in the workspace, however it is led there: by links,
    by files with a path in them, from work trees to what they share, and into the repositories within. Those of others, which
    a command can lead to and not write, are left out."""
    own = [Path(workspace).resolve(), *map(Path, git_places(workspace).folders)]
    found: dict[Path, None] = {}
    waiting = list(_outermost(Path(workspace)))
    while waiting and len(found) < _MAX_REPOSITORIES:
        root, folder = waiting.pop()
        if folder in found:
            continue
        found[folder] = None
        waiting += [(root, place) for place in _named_by(folder / "commondir")]
        waiting += [(None, place) for place in _within(folder)]
        if root is not None:
            waiting += [
                (root / link, place) for link in _git_links(folder) for place in _led_to(root / link / ".git")
            ]
    return [folder for folder in found if any(folder.is_relative_to(place) for place in own)]


def _outermost(workspace: Path) -> Iterator[tuple[Path | None, Path]]:
    """The folder with the files, and that of the repository, where git begins."""
    for folder in (workspace, *workspace.parents):
        places = _led_to(folder / ".git")
        yield from ((folder, place) for place in places)
        if places or _owner(folder) != _owner(workspace):
            return
        if (folder / "HEAD").exists() and (folder / "objects").is_dir():
            yield folder, folder
            return


def _led_to(entry: Path) -> list[Path]:
    if entry.is_dir():
        return [entry.resolve()]
    return _named_by(entry, "gitdir:")


def _named_by(file: Path, prefix: str = "") -> list[Path]:
    """The folder that a file of git's names."""
    with suppress(OSError, ValueError):
        if file.is_file():
            with file.open(encoding="utf-8", errors="surrogateescape") as text:
                named = text.read(_MAX_PATH).removeprefix(prefix).strip()
            place = (file.parent / named).resolve()
            return [place] if place.is_dir() else []
    return []


def _within(folder: Path) -> Iterator[Path]:
    """Work trees and submodules that a repository keeps."""
    waiting = [folder / "worktrees", folder / "modules"]
    seen = 0
    while waiting and seen < _MAX_REPOSITORIES:
        seen += 1
        place = waiting.pop()
        with suppress(OSError):
            if (place / "HEAD").exists():
                yield place
            elif place.is_dir() and not place.is_symlink():
                waiting += place.iterdir()


def _git_links(folder: Path) -> list[str]:
    """Folders of the work tree that are repositories of their own: git looks into them for its status."""
    found: list[str] = []
    with suppress(OSError):
        length = 32 if b"sha256" in (folder / "config").read_bytes() else 20
        for file in (folder / "index", *folder.glob("sharedindex.*")):
            if file.is_file() and _GIT_LINK in (data := file.read_bytes()):
                with suppress(ValueError, IndexError, struct.error):
                    found += _linked(data, length)
    return found


def _linked(data: bytes, hash_length: int) -> Iterator[str]:
    """https://git-scm.com/docs/index-format"""
    version, count = struct.unpack_from(">4xII", data)
    place, name = 12, b""
    for _ in range(count):
        mode = struct.unpack_from(">I", data, place + 24)[0]
        flags = struct.unpack_from(">H", data, place + 40 + hash_length)[0]
        start = place + 42 + hash_length + (2 if flags & 0x4000 else 0)
        cut = 0
        if version == 4:
            cut, start = _number(data, start)
        end = data.index(b"\0", start)
        name = (name[: len(name) - cut] if version == 4 else b"") + data[start:end]
        place = end + 1 if version == 4 else place + ((end - place) // 8 + 1) * 8
        if mode == 0o160000:
            yield os.fsdecode(name)


def _number(data: bytes, start: int) -> tuple[int, int]:
    """A number of any length, and where it ends."""
    value = data[start] & 127
    while data[start] & 128:
        start += 1
        value = ((value + 1) << 7) | (data[start] & 127)
    return value, start + 1


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
                set_aside(path)
                undone.append(f"a program for git to run: {_relative(path, self._workspace)}")
        for path, data in settings.items():
            before = self._settings.get(path, b"")
            changed = sorted(_entries(data) - _entries(before))
            remotes = {name.lower() for name, _ in _entries(data)}
            if programs := [name for name, value in changed if not _is_harmless(name, value, remotes)]:
                set_aside(path)
                if before:
                    path.write_bytes(before)
                undone.append(f"settings of git that run programs: {', '.join(dict.fromkeys(programs))}")
        return undone

    def _state(self) -> tuple[dict[Path, bytes], dict[Path, bytes]]:
        hooks: dict[Path, bytes] = {}
        settings: dict[Path, bytes] = {}
        for folder in _repositories(self._workspace):
            if (folder / "hooks").is_dir():
                names = sorted((folder / "hooks").iterdir())
                hooks |= {
                    path: _content(path)
                    for path in names
                    if path.suffix != ".sample" and STOPPED not in path.name
                }
            for name in ("config", "config.worktree"):
                if (folder / name).is_file():
                    settings[folder / name] = (folder / name).read_bytes()
        return hooks, settings


def _is_harmless(name: str, value: str, names: set[str]) -> bool:
    """`names`: of all settings."""
    if _HARMLESS.fullmatch(name) is None:
        return False
    if _ADDRESSES.fullmatch(name):
        return _ELSEWHERE.fullmatch(value) is not None
    # What is no remote's name is an address.
    return not _REMOTES.fullmatch(name) or value == "." or f"remote.{value.lower()}.url" in names


def _entries(data: bytes) -> set[tuple[str, str]]:
    """Names and values of settings; what cannot be read is one of its own, which is not harmless."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    section, found, at = "", set(), 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            found.add(("what cannot be read", text[at:]))
            break
        at = token.end()
        if token["section"] is not None:
            section = token["section"] + (f".{token['part']}" if token["part"] is not None else "")
        elif token["name"] is not None:
            value = (token["value"] or "").strip()
            found.add((f"{section}.{token['name'].lower()}", value.strip('"')))
    return found


def _content(path: Path) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            return os.fsencode(f"link or folder {os.readlink(path) if path.is_symlink() else path}")  # noqa: PTH115
        with path.open("rb") as file:
            return file.read(_MAX_BYTES) + str(path.stat().st_size).encode()
    except OSError:
        return b""


def _relative(path: Path, workspace: str) -> str:
    return os.path.relpath(path, workspace)


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
