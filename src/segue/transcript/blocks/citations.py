"""Sources that a model names for its text: which of them a wire can hold, and how others are written as words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import structs

from segue.conversation.json_safe import encodable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from segue.conversation.blocks import Citation, SourcePlace, Text

SourceKind: TypeAlias = Literal["url", "place", "document"]
"""What a wire's own form of a citation takes: a web address, a place in a document of the request, or any name."""
_BEGINNING = "Sources:\n[1] "
_LIST = re.compile(r"(?:\A|\n\n)Sources:(?:\n\[\d+\] [^\n]+)+\Z")
_QUOTED = 200
"""So many characters of a quotation are enough to find it."""


def suits(citation: Citation, taken: Collection[SourceKind]) -> bool:
    """Whether a wire that takes these has a form for the citation."""
    if citation.url:
        return "url" in taken
    return ("place" in taken and citation.place is not None) or "document" in taken


def is_listed(citation: Citation) -> bool:
    """Whether there is anything to write of it."""
    return bool(citation.url or citation.title or citation.document or citation.quote)


def source_list(citations: Iterable[Citation]) -> str:
    """The sources as a numbered list, each once; empty if there are none."""
    entries = dict.fromkeys(_entry(citation) for citation in citations if is_listed(citation))
    lines = [f"[{number}] {entry}" for number, entry in enumerate(entries, 1)]
    return "\n".join(["Sources:", *lines]) if lines else ""


def without_source_list(text: str) -> str:
    """A text without the list of sources at its end, so that a reply is known again when a client returns it."""
    return _LIST.sub("", text) if _BEGINNING in text else text


def _entry(citation: Citation) -> str:
    name = _one_line(citation.title or citation.document)
    if citation.url:
        return f"{name}: {citation.url}" if name and name != citation.url else citation.url
    where = f"{name or 'document'}{_where(citation.place)}"
    quote = _one_line(citation.quote)
    if len(quote) > _QUOTED:
        quote = f"{quote[:_QUOTED]}…"
    return f'{where}: "{quote}"' if quote else where


def _where(place: SourcePlace | None) -> str:
    if place is None:
        return ""
    return (
        f", {place.unit} {place.start}"
        if place.end <= place.start + 1
        else (f", {place.unit}s {place.start} to {place.end}")
    )


def _one_line(text: str) -> str:
    return " ".join(encodable(text).split())


def place_in(text: str, citation: Citation) -> tuple[int, int]:
    """Where the words stand that rest on the source: all of the text, if that is not known."""
    if citation.start is not None and citation.end is not None:
        return citation.start, citation.end
    at = text.find(citation.said) if citation.said else -1
    return (at, at + len(citation.said)) if at >= 0 else (0, len(text))


def fit_citations(block: Text, dialect: str) -> tuple[Text, bool]:
    """A text of a history for a target; whether sources that the target does not know are listed in it now. Those of its own
    wire stay what they are."""
    foreign = [citation for citation in block.citations if citation.dialect != dialect]
    if not foreign:
        return block, False
    words = source_list(foreign)
    kept = tuple(citation for citation in block.citations if citation.dialect == dialect)
    text = f"{block.text}\n\n{words}" if words else block.text
    return structs.replace(block, text=text, citations=kept), bool(words)
