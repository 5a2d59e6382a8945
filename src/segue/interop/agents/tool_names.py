"""Tools of one program as tools of another: by what they do, with the names of their arguments."""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, final

from segue.interop.agents.session_file import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TOOLS: Final = ("shell", "read", "write", "edit", "find", "files", "image")


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(files("segue.interop.agents").joinpath("tool_names.toml").read_text("utf-8"))


@final
class ToolNames:
    """The way from one program to another. A program that is not known has no tools that another has."""

    def __init__(self, source: str, target: str) -> None:
        self._same = source == target
        self._source = _table().get(source, {})
        self._target = {
            kind: tool
            for kind, tool in _table().get(target, {}).items()
            if kind not in _table()[target].get("older", ())
        }
        self._special = _SPECIAL.get(target, {})
        self._context = tuple(self._source.get("context", ()))
        self._wrappers = [re.compile(pattern) for pattern in self._source.get("wrapper", ())]

    def is_prompt(self, text: str) -> bool:
        """Whether the user wrote it, and not the program."""
        return not (self._context and text.lstrip().startswith(self._context))

    def unwrapped(self, output: str) -> str:
        """A result without what the program put around it."""
        for wrapper in self._wrappers:
            output = wrapper.sub("", output)
        return output

    def translate(self, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The call as the target would have made it; None if it has no tool for that."""
        if self._same:
            return name, arguments
        found = next(
            ((kind, tool) for kind in _TOOLS if (tool := self._source.get(kind, {})).get("tool") == name),
            None,
        )
        if found is None:
            return None
        kind, words = found
        meant = {
            ours: arguments[theirs]
            for ours, theirs in words.items()
            if ours != "tool" and theirs in arguments
        }
        if write := self._special.get(kind):
            return write(meant)
        tool = self._target.get(kind)
        if tool is None:
            command = _as_command(kind, meant)
            return self._named("shell", {"command": command}) if command else None
        return self._named(kind, meant)

    def _named(self, kind: str, meant: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        tool = self._target.get(kind)
        if tool is None:
            return None
        return tool["tool"], {tool[ours]: value for ours, value in meant.items() if ours in tool}


def _as_command(kind: str, meant: dict[str, Any]) -> str:
    """What a shell would be told; empty if nothing like it."""
    path, pattern = text_of(meant.get("path")), text_of(meant.get("pattern"))
    match kind:
        case "read" if path:
            return f"cat -n {shlex.quote(path)}"
        case "find" if pattern:
            return shlex.join(["rg", "-n", pattern, *([path] if path else [])])
        case "files" if pattern:
            return shlex.join(["rg", "--files", "-g", pattern, *([path] if path else [])])
        case _:
            return ""


Call = tuple[str, dict[str, Any]]


def _added_file(meant: dict[str, Any]) -> Call:
    lines = "".join(f"+{line}\n" for line in text_of(meant.get("content")).splitlines())
    return "apply_patch", {
        "input": f"*** Begin Patch\n*** Add File: {text_of(meant.get('path'))}\n{lines}*** End Patch"
    }


def _updated_file(meant: dict[str, Any]) -> Call:
    old = "".join(f"-{line}\n" for line in text_of(meant.get("old")).splitlines())
    new = "".join(f"+{line}\n" for line in text_of(meant.get("new")).splitlines())
    return "apply_patch", {
        "input": f"*** Begin Patch\n*** Update File: {text_of(meant.get('path'))}\n@@\n{old}{new}*** End Patch"
    }


def _pi_edit(meant: dict[str, Any]) -> Call:
    edit = {"oldText": text_of(meant.get("old")), "newText": text_of(meant.get("new"))}
    return "edit", {"path": text_of(meant.get("path")), "edits": [edit]}


def _gemini_edit(meant: dict[str, Any]) -> Call:
    path, old, new = (text_of(meant.get(name)) for name in ("path", "old", "new"))
    return "replace", {"file_path": path, "instruction": "", "old_string": old, "new_string": new}


def _gemini_read(meant: dict[str, Any]) -> Call:
    lines: dict[str, int] = {}
    first, limit = meant.get("offset"), meant.get("limit")
    if type(first) is int:
        lines["start_line"] = first
    if type(limit) is int:
        lines["end_line"] = (first if type(first) is int else 1) + limit - 1
    return "read_file", {"file_path": text_of(meant.get("path")), **lines}


_SPECIAL: Final[dict[str, dict[str, Callable[[dict[str, Any]], Call]]]] = {
    "codex": {"write": _added_file, "edit": _updated_file},
    "pi": {"edit": _pi_edit},
    "gemini": {"edit": _gemini_edit, "read": _gemini_read},
}
"""Calls whose arguments differ in more than their names: target → kind → how it is written."""
