"""Citations of Converse: a text with sources is a block of its own, `citationsContent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Citation, SourcePlace
from segue.dialects.converse.rules import NAME
from segue.dialects.replies.citations import number_in, text_in, unknown_citation
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal

_UNITS: Mapping[str, Literal["character", "page", "block"]] = {
    "documentChar": "character",
    "documentPage": "page",
    "documentChunk": "block",
}
_KINDS = {unit: kind for kind, unit in _UNITS.items()}


CITED = "citationsContent"
"""A block with a text and its sources."""


def read_citation(given: Any) -> Citation:
    if not isinstance(given, dict):
        return unknown_citation(given, NAME)
    location = given.get("location")
    kind, held = next(iter(location.items()), ("", {})) if isinstance(location, dict) else ("", {})
    held = held if isinstance(held, dict) else {}
    pieces = given.get("sourceContent")
    quoted = [text_in(piece, "text") for piece in pieces if isinstance(piece, dict)] if pieces else []
    url, source = text_in(held, "url") if kind == "web" else "", text_in(given, "source")
    if not url and source.startswith(("https://", "http://")):
        url, source = source, ""
    found = Citation(
        text_in(given, "title"),
        url,
        source,
        "".join(quoted),
        _place(held, _UNITS[kind]) if kind in _UNITS else None,
        dialect=NAME,
        native=json_of(given),
    )
    named = found.title or found.url or found.document or found.quote
    return found if named else unknown_citation(given, NAME)


def read_citations(cited: Mapping[str, Any]) -> list[Citation]:
    listed = cited.get("citations")
    return [read_citation(given) for given in listed] if isinstance(listed, list) else []


def _place(held: Mapping[str, Any], unit: Literal["character", "page", "block"]) -> SourcePlace | None:
    document, start, end = (number_in(held, name) for name in ("documentIndex", "start", "end"))
    if document is None or start is None or end is None:
        return None
    return SourcePlace(unit, document, start, end)


def write_citation(citation: Citation) -> dict[str, Any]:
    if citation.dialect == NAME and citation.native:
        own: dict[str, Any] = msgspec.json.decode(citation.native)
        return own
    place = citation.place
    written: dict[str, Any] = {}
    if citation.title or citation.document:
        written["title"] = citation.title or citation.document
    if citation.quote:
        written["sourceContent"] = [{"text": citation.quote}]
    if citation.url:
        written["location"] = {"web": {"url": citation.url}}
    elif place is not None:
        span = {"documentIndex": place.document, "start": place.start, "end": place.end}
        written["location"] = {_KINDS[place.unit]: span}
    return written


def cited_block(text: str, citations: Iterable[Citation]) -> dict[str, Any]:
    listed = [write_citation(citation) for citation in citations]
    return {CITED: {"content": [{"text": text}], "citations": listed}}
