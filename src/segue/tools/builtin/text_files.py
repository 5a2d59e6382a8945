"""Files as text: how they are encoded, how their lines end, and how to leave both as they were."""

from __future__ import annotations

import codecs
from typing import Final, final

from msgspec import Struct

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@final
class FileText(Struct, frozen=True):
    """The text of a file and what it takes to write it again."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


def read_text(data: bytes) -> FileText | None:
    """The text in a file's bytes; None when they are no text."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if b"\x00" in data and encoding == "utf-8":
        return None
    try:
        return FileText(data[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError:
        return None


def with_newlines(text: str) -> str:
    """Lines that end as they do on Unix, which is how models write them."""
    return text.replace("\r\n", "\n")


def with_returns(text: str) -> str:
    return with_newlines(text).replace("\n", "\r\n")
