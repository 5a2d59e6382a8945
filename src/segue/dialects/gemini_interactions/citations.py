"""Citations of the Interactions wire: annotations of a text, whose places are counted in bytes."""

from __future__ import annotations

from typing import Any

from segue.conversation.blocks import Citation
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.replies.citations import natives, number_in, text_in, unknown_citation
from segue.transcript.blocks.citations import place_in
from segue.transcript.blocks.value_text import json_of


def read_citations(listed: Any, said: str) -> list[Citation]:
    """The annotations of a text, as far as it is known."""
    data = said.encode("utf-8", "replace")
    return [_read(given, data) for given in listed] if isinstance(listed, list) else []


def _read(given: Any, said: bytes) -> Citation:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in ("url_citation", "file_citation", "place_citation"):
        return unknown_citation(given, NAME)
    return Citation(
        text_in(given, "title", "name", "file_name"),
        text_in(given, "url"),
        text_in(given, "document_uri", "file_name", "place_id"),
        text_in(given, "source"),
        start=_characters(said, number_in(given, "start_index")),
        end=_characters(said, number_in(given, "end_index")),
        dialect=NAME,
        native=json_of(given),
    )


def _characters(said: bytes, place: int | None) -> int | None:
    if place is None or not 0 <= place <= len(said):
        return None
    return len(said[:place].decode("utf-8", "ignore"))


def annotation_of(citation: Citation, said: str) -> dict[str, Any]:
    own = natives([citation], NAME)
    if own:
        return own[0]
    start, end = place_in(said, citation)
    placed = {
        "start_index": len(said[:start].encode("utf-8", "replace")),
        "end_index": len(said[:end].encode("utf-8", "replace")),
    }
    if citation.url:
        return {
            "type": "url_citation",
            "url": citation.url,
            "title": citation.title or citation.url,
            **placed,
        }
    named = {"file_name": citation.title or citation.document, "source": citation.quote}
    return {"type": "file_citation", **{name: value for name, value in named.items() if value}, **placed}


def is_written(citation: Citation) -> bool:
    """Whether it has a form on this wire."""
    named = citation.url or citation.title or citation.document
    return bool(named or (citation.native and citation.dialect == NAME))
