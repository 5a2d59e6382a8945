"""Citations of the Messages wire. Those of searches hold what only their provider can read, so none is made up here; a place in
a document of the request can be named by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Citation, SourcePlace
from segue.dialects.replies.citations import number_in, text_in, unknown_citation
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

_UNITS: Mapping[str, tuple[Literal["character", "page", "block"], str, str]] = {
    "char_location": ("character", "start_char_index", "end_char_index"),
    "page_location": ("page", "start_page_number", "end_page_number"),
    "content_block_location": ("block", "start_block_index", "end_block_index"),
}
_KINDS = {unit: (kind, start, end) for kind, (unit, start, end) in _UNITS.items()}
_WEB = frozenset({"web_search_result_location", "search_result_location"})
NAME = "anthropic"


def read_citation(given: Any) -> Citation:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in _UNITS and kind not in _WEB:
        return unknown_citation(given, NAME)
    source = text_in(given, "url", "source")
    is_address = source.startswith(("https://", "http://"))
    return Citation(
        text_in(given, "title", "document_title"),
        source if is_address else "",
        "" if is_address else source or text_in(given, "file_id"),
        text_in(given, "cited_text"),
        _place(given, str(kind)),
        dialect=NAME,
        native=json_of(given),
    )


def read_citations(listed: Any) -> list[Citation]:
    return [read_citation(given) for given in listed] if isinstance(listed, list) else []


def _place(given: Mapping[str, Any], kind: str) -> SourcePlace | None:
    if kind not in _UNITS:
        return None
    unit, first, last = _UNITS[kind]
    document, start, end = (number_in(given, name) for name in ("document_index", first, last))
    if document is None or start is None or end is None:
        return None
    return SourcePlace(unit, document, start, end)


def write_citation(citation: Citation) -> dict[str, Any] | None:
    """None if it can only be written as words."""
    if citation.dialect == NAME and citation.native:
        own: dict[str, Any] = msgspec.json.decode(citation.native)
        return own
    place = citation.place
    if place is None:
        return None
    kind, start, end = _KINDS[place.unit]
    return {
        "type": kind,
        "cited_text": citation.quote,
        "document_index": place.document,
        "document_title": citation.title or None,
        "file_id": None,
        start: place.start,
        end: place.end,
    }
