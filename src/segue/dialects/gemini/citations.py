"""Citations of the Gemini wire. They stand beside the content of a reply, in one object for all of it, and never in a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Citation
from segue.dialects.gemini.rules import NAME
from segue.dialects.replies.citations import natives, text_in
from segue.transcript.blocks.citations import place_in
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_metadata(
    grounding_metadata: Any = None, citation_metadata: Any = None, url_context_metadata: Any = None
) -> list[Citation]:
    """The citations of a candidate; the first of them holds all that came."""
    came = {
        "groundingMetadata": grounding_metadata,
        "citationMetadata": citation_metadata,
        "urlContextMetadata": url_context_metadata,
    }
    native = json_of({name: held for name, held in came.items() if held})
    if native == "{}":
        return []
    found = [
        *_grounds(grounding_metadata),
        *_copied(citation_metadata),
        *_opened(url_context_metadata),
    ] or [Citation(dialect=NAME)]
    return [structs.replace(found[0], native=native), *found[1:]]


def _grounds(grounding: Any) -> list[Citation]:
    chunks, supports = _listed(grounding, "groundingChunks"), _listed(grounding, "groundingSupports")
    said: dict[int, str] = {}
    for support in supports:
        segment = support.get("segment")
        words = text_in(segment, "text") if isinstance(segment, dict) else ""
        for index in support.get("groundingChunkIndices") or ():
            said.setdefault(index, words)
    return [_ground(chunk, said.get(number, "")) for number, chunk in enumerate(chunks)]


def _ground(chunk: dict[str, Any], said: str) -> Citation:
    held = next((value for value in chunk.values() if isinstance(value, dict)), {})
    return Citation(
        text_in(held, "title", "domain"),
        text_in(held, "uri", "sourceUri", "imageUri"),
        text_in(held, "documentName", "fileSearchStore") or ("" if held.get("title") else json_of(chunk)),
        text_in(held, "text"),
        said=said,
        dialect=NAME,
    )


def _copied(copied: Any) -> list[Citation]:
    # Older servers call the list by another name.
    listed = _listed(copied, "citations") or _listed(copied, "citationSources")
    return [
        Citation(
            text_in(source, "title"),
            text_in(source, "uri"),
            text_in(source, "license") or json_of(source),
            dialect=NAME,
        )
        for source in listed
    ]


def _opened(url_context: Any) -> list[Citation]:
    return [
        Citation(url=text_in(opened, "retrievedUrl"), document=json_of(opened), dialect=NAME)
        for opened in _listed(url_context, "urlMetadata")
    ]


def _listed(held: Any, name: str) -> list[dict[str, Any]]:
    found = held.get(name) if isinstance(held, dict) else None
    return [value for value in found if isinstance(value, dict)] if isinstance(found, list) else []


def write_metadata(citations: Sequence[Citation], text: str = "") -> dict[str, Any]:
    """What stands beside the content of a candidate. `text`: the one that they belong to, if it is known."""
    own: dict[str, Any] = {}
    for came in natives(citations, NAME):
        own |= came
    foreign = [citation for citation in citations if citation.dialect != NAME]
    if not foreign:
        return own
    chunks = [_chunk(citation) for citation in foreign]
    supports = [
        _support(text, citation, number)
        for number, citation in enumerate(foreign)
        if citation.said or (text and citation.start is not None)
    ]
    grounding: dict[str, Any] = {"groundingChunks": chunks}
    if supports:
        grounding["groundingSupports"] = supports
    return {"groundingMetadata": grounding, **own}


def _chunk(citation: Citation) -> dict[str, Any]:
    if citation.url:
        return {"web": {"uri": citation.url, "title": citation.title or citation.url}}
    held = {"title": citation.title or citation.document, "text": citation.quote}
    return {"retrievedContext": {name: value for name, value in held.items() if value}}


def _support(text: str, citation: Citation, number: int) -> dict[str, Any]:
    start, end = place_in(text, citation)
    said = citation.said or text[start:end]
    segment: dict[str, Any] = {"text": said}
    if text:  # places are counted in bytes here
        begin = len(text[:start].encode("utf-8", "replace"))
        segment |= {"startIndex": begin, "endIndex": begin + len(said.encode("utf-8", "replace"))}
    return {"segment": segment, "groundingChunkIndices": [number]}
