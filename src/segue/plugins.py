"""What other installed packages add: providers, tools, templates, commands and session formats, by entry points.

Finding them reads the lists of entry points and loads no package; a plugin is loaded when what it offers is used. One that
fails is named with its package, and everything else works.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any, Final, NamedTuple

from segue.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS: Final = {
    "segue.providers": "provider",
    "segue.tools": "tool",
    "segue.templates": "template",
    "segue.commands": "command",
    "segue.session_formats": "session format",
}
"""Group of entry points → what it offers."""
_MARK: Final = "[segue."
_INSTALLED: Final = (".dist-info", ".egg-info")


class Contribution(NamedTuple):
    """One thing that a package offers."""

    package: str
    version: str
    kind: str
    name: str
    value: str
    """`module:object`."""

    def load(self) -> Any:
        """The object. Raises UsageError, whatever goes wrong in the package."""
        from importlib import import_module  # noqa: PLC0415

        module, _, path = self.value.partition("[")[0].replace(" ", "").partition(":")
        try:
            found: Any = import_module(module)
            for name in path.split(".") if path else ():
                found = getattr(found, name)
        except (Exception, SystemExit) as error:
            raise self.failure("cannot be loaded", error) from error
        return found

    def failure(self, what: str, error: BaseException) -> UsageError:
        """The error of this package, and of no other."""
        return UsageError(
            f'The {self.kind} "{self.name}" of the package {self.package} {self.version} {what}: '
            f"{type(error).__name__}: {error}",
            code=f"{self.kind}_not_loaded",
            hint=f"List the plugins: segue plugins. Without it: pip uninstall {self.package}",
        )


def contributions(kind: str = "") -> tuple[Contribution, ...]:
    """Of all installed packages, or only those of a kind. Of two with one name the first on the path counts."""
    found = _scan(tuple(sys.path), os.getcwd())  # noqa: PTH109 - pathlib is slow to load
    return tuple(one for one in found if not kind or one.kind == kind)


def contribution(kind: str, name: str) -> Contribution | None:
    """None if no package offers it."""
    return next((one for one in contributions(kind) if one.name == name), None)


@lru_cache(maxsize=4)
def _scan(path: tuple[str, ...], here: str) -> tuple[Contribution, ...]:
    found: dict[tuple[str, str], Contribution] = {}
    packages: set[str] = set()
    for folder in path:
        # What lies in the current folder was not installed by anybody.
        if not folder or os.path.realpath(folder) == os.path.realpath(here):
            continue
        for place in _installed(folder):
            text = _read(f"{place}/entry_points.txt")
            if _MARK not in text:
                continue
            package, version = _identity(place)
            if package in packages:
                continue
            packages.add(package)
            for kind, name, value in _entries(text):
                found.setdefault((kind, name), Contribution(package, version, kind, name, value))
    return tuple(found.values())


def _installed(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entry.path for entry in entries if entry.name.endswith(_INSTALLED))
    except OSError:
        return


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, name and value of each entry of our groups."""
    kind = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            kind = GROUPS.get(line.strip("[] "), "")
            continue
        name, equals, value = line.partition("=")
        if kind and equals and not line.startswith(("#", ";")) and name.strip():
            yield kind, name.strip(), value.strip()


def _identity(place: str) -> tuple[str, str]:
    """Name and version of a package, from its metadata or else from the name of the folder."""
    text = _read(f"{place}/METADATA") or _read(f"{place}/PKG-INFO")
    fields = dict(line.partition(": ")[::2] for line in text.split("\n\n", 1)[0].splitlines() if ": " in line)
    named, _, version = os.path.basename(place).rpartition(".")[0].partition("-")  # noqa: PTH119
    return fields.get("Name") or named.replace("_", "-"), fields.get("Version") or version


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123 - pathlib is slow to load
            return opened.read()
    except OSError:
        return ""
