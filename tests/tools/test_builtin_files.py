"""Files are read, written, edited, listed and searched as a model expects."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import UsageError
from segue.tools.builtin import builtin_tools
from segue.tools.builtin.output_limit import OutputLimit
from segue.tools.builtin.search import search_tools
from segue.tools.builtin.workspace import Workspace
from segue.tools.builtin.workspace_search import is_ignored, read_gitignore
from segue.tools.definition import Output, Tool
from tools.tool_runs import perform, run_tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8


class Desk:
    """The built-in tools over a directory."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.outputs = directory / "outputs"
        self.tools: dict[str, Tool] = {
            tool.name: tool for tool in builtin_tools(self.root, outputs=self.outputs, max_characters=1_000)
        }

    def __call__(self, name: str, **arguments: Any) -> Output:
        return run_tool(self.tools[name], arguments)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_all_tools_are_there_with_what_they_do(desk: Desk) -> None:
    assert {name: tool.effect for name, tool in desk.tools.items()} == {
        "read_file": "read",
        "write_file": "edit",
        "edit_file": "edit",
        "list_dir": "read",
        "search": "read",
        "run_shell": "run",
        "fetch_url": "fetch",
    }
    for tool in desk.tools.values():
        assert tool.spec.description
        assert tool.spec.parameters is not None
        assert "context" not in tool.spec.parameters["properties"]


def test_nothing_heavy_is_loaded_for_tools_that_nobody_calls(tmp_path: Path) -> None:
    program = (
        "import sys; from segue.tools.builtin import builtin_tools; builtin_tools(sys.argv[1]); "
        "sys.exit(len({'aiohttp', 'jsonschema_rs', 'mcp', 'platformdirs'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True)  # noqa: S603


def test_what_was_written_is_read(desk: Desk) -> None:
    assert desk("write_file", path="a/b/c.txt", content="één\nzwei\n").value == "Made a/b/c.txt, 11 bytes."
    assert desk("read_file", path="./a/b/c.txt").value == "één\nzwei\n"
    assert desk("write_file", path="a/b/c.txt", content="").value == "Replaced a/b/c.txt, 0 bytes."
    assert desk("read_file", path="a/b/c.txt").value == "(the file is empty)"


def test_lines_are_read_by_number_and_it_is_said_what_is_left(desk: Desk) -> None:
    desk("write_file", path="f", content="one\ntwo\x0b\u2028still two\nthree\nfour")
    assert desk("read_file", path="f", first_line=2, lines=2).value == (
        "two\x0b\u2028still two\nthree\n(lines 2 to 3 of 4; read on with first_line=4)"
    )
    assert desk("read_file", path="f", first_line=4).value == "four\n(lines 4 to 4 of 4)"
    assert desk("read_file", path="f", first_line=9).value == "(the file has 4 lines, none from 9 on)"


def test_images_are_media_and_other_bytes_are_refused(desk: Desk) -> None:
    (desk.root / "p.png").write_bytes(PNG)
    (desk.root / "b.bin").write_bytes(b"\x00\x01\xff")
    output = desk("read_file", path="p.png")
    assert (output.media[0].mime, output.media[0].name, b64decode(output.media[0].data)) == (
        "image/png",
        "p.png",
        PNG,
    )
    with pytest.raises(UsageError, match="no text"):
        desk("read_file", path="b.bin")
    with pytest.raises(UsageError, match="no text"):
        desk("edit_file", path="b.bin", old="a", new="b")


def test_a_long_file_is_cropped_and_the_whole_can_still_be_read(desk: Desk) -> None:
    desk("write_file", path="long", content="".join(f"line {n}\n" for n in range(500)))
    value = desk("read_file", path="long").value
    assert value.startswith("line 0\n")
    assert value.endswith("line 499\n")
    assert len(value) < 1_300
    told = re.search(r"all of it is in (\S+),", value)
    assert told is not None
    kept = Path(told[1])
    assert kept.parent == (desk.outputs / "s").resolve()
    assert kept.read_text() == "".join(f"line {n}\n" for n in range(500))
    assert kept.stat().st_mode & 0o077 == 0
    assert desk("read_file", path=str(kept), first_line=250, lines=1).value.startswith("line 249\n")
    with pytest.raises(UsageError, match="outside"):
        desk("write_file", path=str(kept), content="x")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b\n", "B\n", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b\nc", "x\ny", b"a\r\nx\ny\r\n"),
        (b"\xef\xbb\xbfa\r\n", "a", "b", b"\xef\xbb\xbfb\r\n"),
        ("a ü\n".encode("utf-16"), "ü", "ö", "a ö\n".encode("utf-16")),
        (b"no newline at the end", "end", "END", b"no newline at the END"),
    ],
)
def test_an_edit_changes_nothing_else(desk: Desk, before: bytes, old: str, new: str, after: bytes) -> None:
    (desk.root / "f").write_bytes(before)
    assert desk("edit_file", path="f", old=old, new=new).value == "Replaced 1 occurrence in f."
    assert (desk.root / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("missing", "x", "does not occur"),
        ("same", "x", "occurs 3 times in f, at lines 1, 2, 2"),
        ("", "x", "is empty"),
        ("same", "same", "Both texts are the same"),
        ("same", "\ud800", "lone surrogate"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why_and_changes_nothing(
    desk: Desk, old: str, new: str, why: str
) -> None:
    (desk.root / "f").write_bytes(b"same\nsame same\n")
    with pytest.raises(UsageError, match=why):
        desk("edit_file", path="f", old=old, new=new)
    assert (desk.root / "f").read_bytes() == b"same\nsame same\n"


def test_every_occurrence_is_replaced_when_that_is_asked_for(desk: Desk) -> None:
    (desk.root / "f").write_bytes(b"same\nsame same\n")
    assert (
        desk("edit_file", path="f", old="same", new="x", every=True).value == "Replaced 3 occurrences in f."
    )
    assert (desk.root / "f").read_bytes() == b"x\nx x\n"


def test_writers_of_one_path_know_each_other_however_it_is_said(desk: Desk) -> None:
    write, edit = desk.tools["write_file"].writes, desk.tools["edit_file"].writes
    assert write is not None
    assert edit is not None
    said = ["a/f", "./a/f", "a//x/../f", f"{desk.root}/a/f"]
    assert len({write({"path": path}) for path in said} | {edit({"path": path}) for path in said}) == 1
    assert write({"path": "a/g"}) != write({"path": "a/f"})
    assert write({"path": "../f"}) == write({}) == ()


def test_a_listing_shows_kinds_and_leaves_out_what_git_ignores(desk: Desk) -> None:
    for path in ("src/a.py", "src/deep/b.py", "build/out", ".git/config", "notes.log", "keep.log"):
        desk.root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        desk.root.joinpath(path).write_text("x")
    (desk.root / ".gitignore").write_text("# made\nbuild/\n*.log\n!keep.log\n")
    (desk.root / "link").symlink_to("src")
    assert desk("list_dir").value.splitlines() == [
        ".gitignore  30 bytes",
        "keep.log  1 bytes",
        "link@",
        "src/",
    ]
    assert desk("list_dir", path="src", depth=2).value.splitlines() == [
        "src/a.py  1 bytes",
        "src/deep/",
        "src/deep/b.py  1 bytes",
    ]
    desk.root.joinpath("empty").mkdir()
    assert desk("list_dir", path="empty").value == "(empty)"


def test_a_search_finds_lines_within_its_bounds(desk: Desk) -> None:
    (desk.root / "src").mkdir()
    (desk.root / "src" / "a.py").write_text("import os\nimport re\r\n# Import nothing\n")
    (desk.root / "b.txt").write_text("import me\n")
    (desk.root / "ignored.txt").write_text("import me\n")
    (desk.root / "binary").write_bytes(b"import\x00")
    (desk.root / ".gitignore").write_text("ignored.*\n")
    assert desk("search", pattern=r"^import \w+$").value.splitlines() == [
        "b.txt:1: import me",
        "src/a.py:1: import os",
        "src/a.py:2: import re",
    ]
    assert desk("search", pattern="import", files="*.py", ignore_case=True).value.count("\n") == 3
    assert desk("search", pattern="import", files="src/**").value.count("\n") == 2
    assert desk("search", pattern="import", path="b.txt").value == "b.txt:1: import me\n"
    assert "more than these 1" in desk("search", pattern="import", limit=1).value
    assert desk("search", pattern="nowhere").value == "(nothing found)"
    with pytest.raises(UsageError, match="no regular expression"):
        desk("search", pattern="(")


def test_a_search_imports_nothing_from_the_workspace(desk: Desk) -> None:
    for name in ("msgspec", "re", "segue"):
        (desk.root / f"{name}.py").write_text("open('taken', 'w').close()\nraise SystemExit(1)\n")
    assert "msgspec.py:1" in desk("search", pattern="taken", files="msgspec.py").value
    assert not (desk.root / "taken").exists()


def test_a_pattern_that_never_ends_is_ended(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("found a\n" + "a" * 64 + "!\n")
    _, search = search_tools(Workspace(tmp_path), OutputLimit(tmp_path / "out"), seconds=1.0)
    began = time.monotonic()
    output = run_tool(search, {"pattern": "^found|(a+)+$"})
    assert time.monotonic() - began < 5
    assert output.value.startswith("f:1: found a\n(the search was ended after 1 seconds")


def test_a_cancelled_search_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 64 + "!\n")
    _, search = search_tools(Workspace(tmp_path), OutputLimit(tmp_path / "out"))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(perform(search, {"pattern": "(a+)+$"}), 0.5)

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("rules", "path", "is_directory", "ignored"),
    [
        ("*.log", "a/b.log", False, True),
        ("/top", "top", False, True),
        ("/top", "a/top", False, False),
        ("a/*.txt", "a/b.txt", False, True),
        ("a/*.txt", "a/c/b.txt", False, False),
        ("a/**/b", "a/x/y/b", False, True),
        ("a/**/b", "a/b", False, True),
        ("dir/", "dir", False, False),
        ("dir/", "x/dir", True, True),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("[ab].c", "b.c", False, True),
        ("[!ab].c", "b.c", False, False),
        ("[z-a]", "z", False, False),
        ("\\#odd", "#odd", False, True),
        ("", "node_modules", True, True),
        ("", ".git", True, True),
    ],
)
def test_git_ignores_what_it_should(rules: str, path: str, is_directory: bool, ignored: bool) -> None:
    assert is_ignored(path, read_gitignore(rules, ""), is_directory=is_directory) is ignored


def test_the_rules_of_a_directory_hold_below_it_only() -> None:
    rules = read_gitignore("/x\n*.o", "sub")
    assert is_ignored("sub/x", rules, is_directory=False)
    assert is_ignored("sub/deep/a.o", rules, is_directory=False)
    assert not is_ignored("x", rules, is_directory=False)
    assert not is_ignored("a.o", rules, is_directory=False)


@given(st.text(), st.text())
def test_no_line_of_a_gitignore_breaks_a_walk(line: str, path: str) -> None:
    is_ignored(path, read_gitignore(line, ""), is_directory=True)
