"""The part of the disk that tools may touch.

A path is walked step by step from the root, each step opened relative to the one before and never through a symbolic
link, so what is checked is what is used: nothing that is moved or linked meanwhile leads out. Files are replaced whole,
which also keeps a hard link's other names untouched.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, final

from msgspec import Struct

from segue.conversation.json_safe import encodable
from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Steps: TypeAlias = tuple[str, ...]

_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# A pipe is opened without waiting for somebody at its other end, and is then refused.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


@final
class DirectoryEntry(Struct, frozen=True):
    """What a directory holds under one name."""

    name: str
    kind: str
    """`file`, `directory`, `link` or `other`."""
    size: int = 0


class Workspace:
    """A directory and all that is really in it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd:
            raise UsageError(
                "The built-in file tools need a system that opens files relative to a directory.",
                code="unsupported_system",
                hint="Use Linux, macOS or WSL, or give the chat tools of your own.",
            )
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UsageError(
                f"The workspace {self.root} is no directory.",
                code="no_workspace",
                hint="Name one that exists.",
            )

    def steps(self, path: str) -> Steps:
        """The names that lead from the root to a path. Refuses what leads out; looks at no file."""
        # Nothing but the first of these marks is special to the system, and the empty path is nobody's file.
        if not path or "\x00" in path:
            raise _refused(path, "is no path", "Give a path relative to the workspace root.")
        inside = path
        if path.startswith("/"):
            root = f"{self.root}".rstrip("/")
            if path != root and not path.startswith(f"{root}/"):
                raise _refused(
                    path, "is outside the workspace", "Give a path relative to the workspace root."
                )
            inside = path[len(root) :]
        steps: list[str] = []
        for name in inside.split("/"):
            if name == "..":
                if not steps:
                    raise _refused(
                        path, "leads out of the workspace", "Give a path relative to the workspace root."
                    )
                steps.pop()
            elif name not in ("", "."):
                steps.append(name)
        return tuple(steps)

    def name_of(self, steps: Steps) -> str:
        return "/".join(steps) or "."

    @contextmanager
    def directory(self, steps: Steps, *, create: bool = False) -> Iterator[int]:
        """A descriptor of a directory, open as long as the block."""
        try:
            current = os.open(self.root, _DIRECTORY)
        except OSError as error:
            raise UsageError(
                f"The workspace {self.root} is gone.",
                code="no_workspace",
                hint="Nothing can be read or written.",
            ) from error
        try:
            for depth, name in enumerate(steps):
                if create:
                    with suppress(FileExistsError), self._explained(steps[: depth + 1], current):
                        os.mkdir(name, dir_fd=current)
                with self._explained(steps[: depth + 1], current):
                    following = os.open(name, _DIRECTORY, dir_fd=current)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    @contextmanager
    def reading(self, steps: Steps) -> Iterator[BinaryIO]:
        """A regular file, open for reading."""
        if not steps:
            raise _refused(".", "is a directory", "Name a file in it.")
        with self.directory(steps[:-1]) as parent:
            with self._explained(steps, parent):
                descriptor = os.open(steps[-1], _FILE, dir_fd=parent)
            _require_file(descriptor, self.name_of(steps))
            with open(descriptor, "rb") as file:  # noqa: PTH123 - an open descriptor
                yield file

    def write(self, steps: Steps, data: bytes) -> bool:
        """Put a file in place whole, directories on the way included. True if there was none before."""
        if not steps:
            raise _refused(".", "is a directory", "Name a file in it.")
        if any(name.casefold() == ".git" for name in steps):
            # A hook or a setting of git runs programs later, without anybody having agreed to that.
            raise _refused(self.name_of(steps), "belongs to git", "Use git itself to change it.")
        with self.directory(steps[:-1], create=True) as parent:
            mode = self._mode(steps, parent)
            draft = f".{secrets.token_hex(8)}.draft"
            with self._explained(steps, parent):
                descriptor = os.open(draft, _NEW, 0o666, dir_fd=parent)
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123 - an open descriptor
                    file.write(data)
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                with self._explained(steps, parent):
                    os.replace(draft, steps[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=parent)
                raise
            return mode is None

    def entries(self, descriptor: int) -> list[DirectoryEntry]:
        """What an open directory holds, by name. Links are named, never followed."""
        with os.scandir(descriptor) as found:
            return sorted((_entry(held) for held in found), key=lambda entry: entry.name)

    def _mode(self, steps: Steps, parent: int) -> int | None:
        """The permissions of the file that is about to be replaced; None when there is none."""
        try:
            mode = os.stat(steps[-1], dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._why(error, steps, parent) from error
        if stat.S_ISREG(mode):
            return stat.S_IMODE(mode)
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
        raise _refused(self.name_of(steps), f"is {kind}", "Only regular files can be written.")

    @contextmanager
    def _explained(self, steps: Steps, parent: int) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except (OSError, ValueError) as error:
            raise self._why(error, steps, parent) from error

    def _why(self, error: OSError | ValueError, steps: Steps, parent: int) -> UsageError:
        name = self.name_of(steps)
        if isinstance(error, ValueError):
            return _refused(name, "is no path", "Use names that the file system knows.")
        with suppress(OSError, ValueError):
            mode = os.stat(steps[-1], dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                return _refused(
                    name,
                    "is a symbolic link",
                    "Links are not followed: name the file itself, by its own path.",
                )
        if error.errno == errno.ENOENT:
            return _refused(name, "does not exist", "List the directory to see what is there.")
        if error.errno == errno.ENOTDIR:
            return _refused(name, "is no directory", "List the directory above it to see what is there.")
        return _refused(name, f"cannot be opened ({os.strerror(error.errno or 0)})", "")


def _require_file(descriptor: int, name: str) -> None:
    """Raises where it is no regular file, and closes it."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "is a directory" if stat.S_ISDIR(mode) else "is no regular file"
        raise _refused(name, what, "Only regular files can be read.")


def _entry(held: os.DirEntry[str]) -> DirectoryEntry:
    if held.is_symlink():
        return DirectoryEntry(held.name, "link")
    if held.is_dir(follow_symlinks=False):
        return DirectoryEntry(held.name, "directory")
    if not held.is_file(follow_symlinks=False):
        return DirectoryEntry(held.name, "other")
    try:
        return DirectoryEntry(held.name, "file", held.stat(follow_symlinks=False).st_size)
    except OSError:
        return DirectoryEntry(held.name, "file")


def _refused(path: str, what: str, hint: str) -> UsageError:
    shown = encodable(path if len(path) <= 300 else f"{path[:300]}…")
    return UsageError(f'"{shown}" {what}.', code="bad_path", hint=hint)
