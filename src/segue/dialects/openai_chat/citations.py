"""Citations of the Chat wire: annotations of a message, and the lists that search engines put beside the choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Citation, Text
from segue.dialects.replies.citations import natives, text_in, unknown_citation, url_annotation
from segue.transcript.blocks.citations import place_in
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Block


def read_sources(results: list[Any], addresses: list[Any], dialect: str) -> list[Citation]:
    """The sources in the order in which the text numbers them; the first one holds both lists as they came."""
    given = {name: held for name, held in (("citations", addresses), ("search_results", results)) if held}
    listed = results if len(results) >= len(addresses) else addresses
    found = [structs.replace(_read_source(source, dialect), native="") for source in listed]
    return [structs.replace(found[0], native=json_of(given)), *found[1:]] if found else []


def _read_source(source: Any, dialect: str) -> Citation:
    if isinstance(source, str):
        return Citation(url=source, dialect=dialect)
    if not isinstance(source, dict) or not text_in(source, "url"):
        return unknown_citation(source, dialect)
    return Citation(
        text_in(source, "title"), text_in(source, "url"), quote=text_in(source, "snippet"), dialect=dialect
    )


def beside_choices(citations: Iterable[Citation], dialect: str) -> dict[str, Any]:
    """The lists as they came; empty if none did."""
    beside: dict[str, Any] = {}
    for came in natives(citations, dialect):
        if "type" not in came:
            beside |= came
    return beside


def annotations_of(blocks: Iterable[Block], dialect: str) -> list[dict[str, Any]]:
    """Those of a whole message, whose texts are one on this wire."""
    found: list[dict[str, Any]] = []
    before = 0
    for block in blocks:
        if type(block) is Text:
            for citation in block.citations:
                start, end = place_in(block.text, citation)
                found += annotation_of(citation, dialect, before + start, before + end)
            before += len(block.text)
    return found


def annotation_of(citation: Citation, dialect: str, start: int, end: int) -> list[dict[str, Any]]:
    """The annotation, if it is one."""
    if citation.dialect == dialect:
        return [came for came in natives([citation], dialect) if "type" in came]
    if not citation.url:
        return []
    return [{"type": "url_citation", "url_citation": url_annotation(citation, start, end)}]
