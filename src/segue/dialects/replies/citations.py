"""Citations as wires write them: what several wires have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.conversation.blocks import Citation
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segue.conversation.blocks import Text
    from segue.conversation.extra import Extra


def natives(citations: Iterable[Citation], dialect: str) -> list[dict[str, Any]]:
    """The citations that came on this wire, as they came."""
    return [
        msgspec.json.decode(citation.native)
        for citation in citations
        if citation.native and citation.dialect == dialect
    ]


def text_in(held: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is a text."""
    found = (held.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")


def number_in(held: Mapping[str, Any], name: str) -> int | None:
    value = held.get(name)
    return value if type(value) is int else None


def unknown_citation(given: Any, dialect: str) -> Citation:
    """One of a kind that is newer than we are: its facts under the usual names, else all of it."""
    held = given if isinstance(given, dict) else {}
    inner = held.get(str(held.get("type")))
    fields = inner if isinstance(inner, dict) else held
    native = json_of(given)
    found = Citation(
        text_in(fields, "title", "name", "filename", "document_title"),
        text_in(fields, "url", "uri"),
        text_in(fields, "file_id", "source", "id"),
        text_in(fields, "cited_text", "text", "quote"),
        dialect=dialect,
        native=native,
    )
    named = found.title or found.url or found.document or found.quote
    return found if named else structs.replace(found, document=native)


def with_citations(block: Text, citations: Iterable[Citation], field: str) -> Text:
    """A text of a request with the citations that this field of it holds; the field itself is only their form."""
    found = tuple(citations)
    extra = block.extra
    if not found or extra is None or field not in extra.fields:
        return block
    return structs.replace(block, citations=found, extra=as_form(extra, field))


def as_form(extra: Extra, field: str) -> Extra:
    """The same with a field that has no meaning of its own any more."""
    fields = {name: value for name, value in extra.fields.items() if name != field}
    return structs.replace(extra, fields=fields, form={**extra.form, field: extra.fields[field]})


# Annotations, as both wires of OpenAI have them


def read_annotations(listed: Any, dialect: str) -> list[Citation]:
    return [_read_annotation(given, dialect) for given in listed] if isinstance(listed, list) else []


def _read_annotation(given: Any, dialect: str) -> Citation:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in ("url_citation", "file_citation", "container_file_citation", "file_path"):
        return unknown_citation(given, dialect)
    inner = given.get(kind)  # Chat has the fields in an object of their own
    held = inner if isinstance(inner, dict) else given
    name = text_in(held, "filename")
    return Citation(
        text_in(held, "title") or name,
        text_in(held, "url"),
        text_in(held, "file_id"),
        text_in(held, "content"),
        start=number_in(held, "start_index"),
        end=number_in(held, "end_index"),
        dialect=dialect,
        native=json_of(given),
    )


def url_annotation(citation: Citation, start: int, end: int) -> dict[str, Any]:
    return {
        "url": citation.url,
        "title": citation.title or citation.url,
        "start_index": start,
        "end_index": end,
    }
