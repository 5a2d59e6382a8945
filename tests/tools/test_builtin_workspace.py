"""Nothing outside a workspace is ever read or written, however a path is said and whatever lies on its way."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.errors import UsageError
from segue.tools.builtin import builtin_tools
from segue.tools.builtin.workspace import Workspace
from segue.tools.definition import Output, Tool
from tools.tool_runs import run_tool

UNREADABLE = "what nobody may read"


def call(tools: dict[str, Tool], name: str, **arguments: Any) -> Output:
    return run_tool(tools[name], arguments)


def names_in(directory: Path) -> list[str]:
    return sorted(found.name for found in directory.iterdir())


def tools_at(root: Path) -> dict[str, Tool]:
    return {tool.name: tool for tool in builtin_tools(root, outputs=root.parent / "outputs")}


@pytest.fixture(scope="module")
def yard() -> Iterator[Path]:
    """A workspace in a directory with a secret beside it, and links that lead there in every way."""
    with tempfile.TemporaryDirectory() as name:
        yard = Path(name).resolve()
        root = yard / "root"
        (root / "a" / "b").mkdir(parents=True)
        (yard / "outside").mkdir()
        (yard / "outside" / "secret").write_text(UNREADABLE)
        (yard / "secret").write_text(UNREADABLE)
        (root / "fine").write_text("fine")
        (root / "a" / "fine").write_text("fine")
        (root / "to_file").symlink_to(yard / "secret")
        (root / "to_directory").symlink_to(yard / "outside")
        (root / "to_root").symlink_to("/")
        (root / "up").symlink_to("..")
        (root / "a" / "back").symlink_to("../..")
        (root / "a" / "chain").symlink_to("../to_directory")
        (root / "loop").symlink_to("loop")
        (root / "dangling").symlink_to(yard / "outside" / "new")
        (root / "inside").symlink_to("a")
        os.mkfifo(root / "pipe")
        yield yard


_NAMES = [
    "a",
    "b",
    "fine",
    "secret",
    "outside",
    "root",
    "to_file",
    "to_directory",
    "to_root",
    "up",
    "back",
    "chain",
]
_NAMES += [
    "loop",
    "dangling",
    "inside",
    "pipe",
    "..",
    ".",
    "",
    "...",
    "new",
    "~",
    "\\..",
    "%2e%2e",
    "\ud800",
    "\x00",
]
_paths = st.builds(
    lambda start, names, end: start + "/".join(names) + end,
    st.sampled_from(["", "/", "./", "../", "//", "{root}/", "{root}", "{yard}/", "file://"]),
    st.lists(st.sampled_from(_NAMES) | st.text(max_size=4), max_size=7),
    st.sampled_from(["", "/", "/.", "/.."]),
)


@given(_paths)
def test_no_path_reads_anything_outside(yard: Path, path: str) -> None:
    workspace = Workspace(yard / "root")
    path = path.replace("{root}", f"{yard}/root").replace("{yard}", f"{yard}")
    try:
        steps = workspace.steps(path)
        with workspace.reading(steps) as file:
            assert file.read() == b"fine"
    except UsageError as error:
        assert error.code == "bad_path"
    try:
        with workspace.directory(workspace.steps(path)) as descriptor:
            seen = os.fstat(descriptor)
            real = [yard / "root", *(found for found in (yard / "root").rglob("*") if not found.is_symlink())]
            assert seen.st_ino in {found.lstat().st_ino for found in real}
    except UsageError as error:
        assert error.code == "bad_path"


@given(_paths)
@example("\ud800")
def test_no_path_writes_anything_outside(path: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        yard = Path(name).resolve()
        (yard / "root" / "a").mkdir(parents=True)
        (yard / "outside").mkdir()
        (yard / "outside" / "secret").write_text(UNREADABLE)
        (yard / "root" / "to_file").symlink_to(yard / "outside" / "secret")
        (yard / "root" / "to_directory").symlink_to(yard / "outside")
        (yard / "root" / "up").symlink_to("..")
        (yard / "root" / "a" / "back").symlink_to("../..")
        (yard / "root" / "dangling").symlink_to(yard / "outside" / "new")
        (yard / "root" / "fine").hardlink_to(yard / "outside" / "secret")
        workspace = Workspace(yard / "root")
        path = path.replace("{root}", f"{yard}/root").replace("{yard}", f"{yard}")
        try:
            workspace.write(workspace.steps(path), b"written")
        except UsageError as error:
            assert error.code == "bad_path"
        assert names_in(yard) == ["outside", "root"]
        assert names_in(yard / "outside") == ["secret"]
        assert (yard / "outside" / "secret").read_text() == UNREADABLE
        assert not list((yard / "root").rglob("*.draft"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../secret", "leads out"),
        ("a/../../secret", "leads out"),
        ("/etc/passwd", "outside the workspace"),
        ("to_file", "symbolic link"),
        ("to_directory/secret", "symbolic link"),
        ("a/chain/secret", "symbolic link"),
        ("up/secret", "symbolic link"),
        ("loop", "symbolic link"),
        ("missing", "does not exist"),
        ("fine/x", "no directory"),
        ("pipe", "no regular file"),
        ("a", "is a directory"),
        ("", "no path"),
        ("a\x00b", "no path"),
        ("x" * 300, "cannot be opened"),
    ],
)
def test_a_refusal_says_why(yard: Path, path: str, why: str) -> None:
    workspace = Workspace(yard / "root")
    with pytest.raises(UsageError, match=why), workspace.reading(workspace.steps(path)):
        pass


def test_an_absolute_path_inside_is_taken_as_what_it_is(yard: Path) -> None:
    workspace = Workspace(yard / "root")
    assert workspace.steps(f"{yard}/root/a/../fine") == ("fine",)
    with pytest.raises(UsageError):
        workspace.steps(f"{yard}/root_of_another/fine")


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "list_dir", "search"])
@pytest.mark.parametrize(
    "path", ["../outside", "to_directory", "a/chain", "up", "../secret", "to_file", "/etc"]
)
def test_every_tool_stays_inside(yard: Path, name: str, path: str) -> None:
    arguments = {
        "write_file": {"content": "x"},
        "edit_file": {"old": UNREADABLE, "new": "x"},
        "search": {"pattern": "nobody"},
    }.get(name, {})
    with pytest.raises(UsageError):
        call(tools_at(yard / "root"), name, path=path, **arguments)
    assert (yard / "secret").read_text() == UNREADABLE


def test_a_walk_tells_of_links_and_follows_none(yard: Path) -> None:
    tools = tools_at(yard / "root")
    listed = call(tools, "list_dir", depth=5).value
    assert "to_directory@" in listed
    assert "secret" not in listed
    assert call(tools, "search", pattern="nobody").value == "(nothing found)"


def test_a_link_put_in_place_while_a_path_is_walked_leads_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text(UNREADABLE)
    (root / "real" / "file").write_text("fine")
    workspace = Workspace(root)
    stop = threading.Event()

    def swap() -> None:
        for number in count():
            for step in (
                lambda: (root / "real").rename(root / f"away{number}"),  # noqa: B023
                lambda: (root / "real").symlink_to(outside),
                (root / "real").unlink,
                lambda: (root / f"away{number}").rename(root / "real"),  # noqa: B023
            ):
                with suppress(OSError):  # the other side makes directories meanwhile
                    step()
            if stop.is_set():
                return

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(1_500):
            try:
                with workspace.reading(("real", "file")) as file:
                    assert file.read() != UNREADABLE.encode()
                if number % 5 == 0:
                    workspace.write(("real", "file"), b"written")
            except UsageError:
                continue
    finally:
        stop.set()
        swapping.join()
    assert (outside / "file").read_text() == UNREADABLE
    assert names_in(outside) == ["file"]


def test_what_git_runs_by_itself_is_not_written(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for steps in ((".git", "hooks", "pre-commit"), ("sub", ".GIT", "config")):
        with pytest.raises(UsageError, match="belongs to git"):
            workspace.write(steps, b"x")
    assert names_in(tmp_path) == []


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    assert Workspace(tmp_path).write(("run.sh",), b"new") is False
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_workspace_must_be_a_directory_and_stay_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        Workspace(tmp_path / "missing")
    root = tmp_path / "root"
    root.mkdir()
    workspace = Workspace(root)
    root.rmdir()
    with pytest.raises(UsageError, match="gone"), workspace.reading(("a",)):
        pass
