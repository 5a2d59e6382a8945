"""A walk sees what git sees: compared with git itself over many trees and patterns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from segue.tools.builtin.workspace import Workspace
from segue.tools.builtin.workspace_search import walk

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = ("a", "b", "foo", "x.txt", "foo.py", "[x]", "a b", "#a", "!a")
PIECES = (
    *NAMES,
    "*",
    "**",
    "?",
    "/",
    "/",
    "!",
    "*.txt",
    "[ab]",
    "[!a]",
    "[^a]",
    "[z-a]",
    "\\",
    " ",
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
lines = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
ends = st.sampled_from(("\n", "\r\n"))
ignore_files = st.dictionaries(
    st.sampled_from(("", "a", "foo", "a/b")), st.tuples(st.lists(lines, max_size=5), ends), max_size=3
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        _git("init", "--quiet", folder)
        yield Path(folder) / ".git"


def _git(*arguments: str, text: bytes = b"") -> bytes:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(  # noqa: S603
        ["git", "-c", "core.excludesFile=", *arguments],  # noqa: S607
        input=text,
        capture_output=True,
        check=False,
        env=environment,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def _ignored_by_git(repository: Path, root: Path, names: list[str]) -> set[str]:
    given_names = b"".join(name.encode() + b"\x00" for name in names)
    work_tree = ("--git-dir", str(repository), "--work-tree", str(root), "-C", str(root))
    found = _git(*work_tree, "check-ignore", "--no-index", "--stdin", "-z", text=given_names)
    return {name.decode() for name in found.split(b"\x00") if name}


@settings(deadline=None)
@given(st.lists(paths, min_size=1, max_size=12), ignore_files)
@example(["a/x.txt"], {"": (["*.txt", "!a"], "\n")})
@example(["a/b/x.txt", "a/x.txt"], {"": (["*.txt"], "\n"), "a": (["!x.txt"], "\n")})
@example(["foo/a", "foo/b"], {"": (["foo/*", "!foo/b"], "\n")})
@example(["foo/a", "foo/b"], {"": (["foo/", "!foo/b"], "\n")})
@example(["a/a"], {"": (["a", "!/"], "\n")})
@example(["a/a"], {"": (["a[!a]"], "\n")})
@example(["a"], {"": (["[[ab]"], "\n")})
@example(["a b", "x.txt"], {"": (["a b ", "x.txt\\ "], "\r\n")})
def test_a_walk_leaves_out_exactly_what_git_ignores(
    repository: Path, files: list[str], ignores: dict[str, tuple[list[str], str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in files:
            path = root / name
            if not any(above.is_file() for above in (path, *path.parents)) and not path.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        for directory, (written, end) in ignores.items():
            if (root / directory).is_dir():
                (root / directory / ".gitignore").write_bytes(end.join(written).encode())
        names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*"))]
        seen = {"/".join(steps) for steps, _ in walk(Workspace(root), ())}
        assert set(names) - seen == _ignored_by_git(repository, root, names)
