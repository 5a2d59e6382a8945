"""What a Gemini request may refer to without holding it. Each field has two spellings."""

from __future__ import annotations

import re
from typing import Any, Final

from segue.dialects.gemini.wire import field
from segue.dialects.references import ReferenceField, text_name, whole_name

_HELD: Final = re.compile(r"gs://|files/|https://[^/]+/v1[a-z0-9]*/files/")
"""Addresses of files that Google keeps; others can be fetched by anybody."""


def _file(held: Any) -> str:
    uri = field(held, "fileUri") if isinstance(held, dict) else None
    return uri if isinstance(uri, str) and _HELD.match(uri) else ""


def _tool(tool: Any) -> str:
    """Stores that a tool of Google's searches in."""
    if not isinstance(tool, dict):
        return ""
    return whole_name(field(tool, "fileSearch") or tool.get("retrieval"))


def _cached(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="history",
        names=text_name,
        message="The cached content {name} is held by the provider that made it, and another one answers here.",
        code="cached_content_not_held",
        hint="Send the contents, the system instruction and the tools themselves.",
    )


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b"ile_uri", b"ileUri"),
        message="The file {name} is held by the provider that it was uploaded to, and another one answers here.",
        hint="Send inlineData instead, remove the file, or go back to a model of that provider.",
    )


REFERENCES: Final = (
    *map(_cached, ("cachedContent", "cached_content")),
    *(
        _files(f"contents[].parts[].{inner}{name}")
        for inner in ("", "functionResponse.parts[].", "function_response.parts[].")
        for name in ("fileData", "file_data")
    ),
    ReferenceField(
        place="tools[]",
        stands_for="tools",
        names=_tool,
        message="The tool searches in what only its provider holds, and another one answers here.",
        hint="Remove the tool or offer functions instead, or go back to a model of that provider.",
    ),
)
