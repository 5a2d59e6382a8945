"""Splits arriving Markdown into blocks that later text cannot change."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

Kind: TypeAlias = Literal["text", "item", "heading", "code"]

CODE_PORTION: Final = 40
"""Lines of code after which a long program is printed in portions: its beginning can be read before its end arrives."""

_FENCE: Final = re.compile(r"^(?P<indent> {0,3})(?P<marks>`{3,}|~{3,})\s*(?P<language>[\w+#.-]*)[^`]*$")
_INNER_FENCE: Final = re.compile(r"^\s+(?P<marks>`{3,}|~{3,})")
_ITEM: Final = re.compile(r"^ {0,1}(?:[-*+]|\d{1,9}[.)])\s")
_HEADING: Final = re.compile(r"^#{1,6}(\s|$)")


@final
class MarkdownBlock(Struct, frozen=True):
    """A piece that can be rendered on its own. Of code, `text` is the program itself."""

    kind: Kind
    text: str
    language: str = ""
    continues: bool = False
    """Belongs directly under the block before: the next item of a list, or more of a program."""

    @property
    def code(self) -> str:
        return self.text.rstrip("\n") if self.kind == "code" else ""

    def joins(self, before: MarkdownBlock) -> bool:
        return self.continues and before.kind == self.kind


@final
class MarkdownBlockReader:
    """Takes text in any portions and returns finished blocks. Each line is read once."""

    def __init__(self) -> None:
        self._rest: list[str] = []
        """Portions of the line that has not ended."""
        self._lines: list[str] = []
        self._kind: Kind = "text"
        self._fence = ""
        """The fence that closes the code block."""
        self._language = ""
        self._continues = False
        self._gap = False
        """A blank line was seen inside a list: the next line decides whether the list continues."""
        self.tail_size = 0
        """Letters of the block that is not finished."""

    def feed(self, text: str) -> list[MarkdownBlock]:
        finished: list[MarkdownBlock] = []
        first, *others = text.split("\n")
        self._rest.append(first)
        self.tail_size += len(first)
        for line in others:
            self._end_line(finished)
            self._rest.append(line)
            self.tail_size += len(line)
        return finished

    def finish(self) -> list[MarkdownBlock]:
        """What is left; the next text starts afresh."""
        finished: list[MarkdownBlock] = []
        self._end_line(finished)
        self._close(finished)
        return finished

    @property
    def in_code(self) -> bool:
        return self._kind == "code"

    @property
    def is_between_blocks(self) -> bool:
        return self.tail() is None and not self.in_code and not self._lines

    def tail(self) -> MarkdownBlock | None:
        """What has arrived of the block that is not finished."""
        rest = "".join(self._rest)
        if self._lines or self._kind == "code":
            return MarkdownBlock(self._kind, "\n".join([*self._lines, rest]), self._language, self._continues)
        return MarkdownBlock("heading" if _HEADING.match(rest) else "text", rest) if rest.strip() else None

    def _end_line(self, finished: list[MarkdownBlock]) -> None:
        line = "".join(self._rest)
        self._rest = []
        self._take(line, finished)
        self.tail_size = sum(map(len, self._lines)) if finished else self.tail_size

    def _take(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._kind == "code":
            self._take_code(line, finished)
        elif self._fence:
            self._take_inner_code(line)
        elif not line.strip():
            self._take_blank(finished)
        elif fence := _FENCE.match(line) if not (self._kind == "item" and line.startswith(" ")) else None:
            self._close(finished)
            self._kind, self._fence, self._language = "code", fence["marks"], fence["language"]
        elif _HEADING.match(line):
            self._close(finished)
            self._begin("heading", line)
            self._close(finished)
        elif _ITEM.match(line):
            follows = self._kind == "item" and bool(self._lines)
            tight = follows and not self._gap
            self._close(finished)
            self._begin("item", line)
            self._continues = tight
        else:
            self._take_text(line, finished)

    def _take_text(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._gap and not line.startswith(" "):
            self._close(finished)  # the list is over
        if self._kind == "item" and (inner := _INNER_FENCE.match(line)):
            self._fence = inner["marks"]
        if self._gap:
            self._lines.append("")
            self._gap = False
        self._lines.append(line)

    def _take_blank(self, finished: list[MarkdownBlock]) -> None:
        if self._kind == "item" and self._lines:
            self._gap = True
        else:
            self._close(finished)

    def _take_code(self, line: str, finished: list[MarkdownBlock]) -> None:
        if self._closes(line):
            self._close(finished)
            return
        self._lines.append(line)
        if len(self._lines) >= CODE_PORTION:
            finished.append(MarkdownBlock("code", "\n".join(self._lines), self._language, self._continues))
            self._lines, self._continues = [], True

    def _take_inner_code(self, line: str) -> None:
        self._lines.append(line)
        if self._closes(line):
            self._fence = ""

    def _closes(self, line: str) -> bool:
        marks = line.strip()
        return len(marks) >= len(self._fence) and not marks.strip(self._fence[0]) and bool(marks)

    def _begin(self, kind: Kind, line: str) -> None:
        self._kind = kind
        self._lines = [line]

    def _close(self, finished: list[MarkdownBlock]) -> None:
        if self._lines:
            finished.append(
                MarkdownBlock(self._kind, "\n".join(self._lines), self._language, self._continues)
            )
        self._lines, self._kind, self._fence, self._language = [], "text", "", ""
        self._continues = self._gap = False
