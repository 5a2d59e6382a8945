"""What an Interactions request may refer to without holding it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from segue.dialects.server_side.references import ReferenceField, name_unless_empty, whole_name

if TYPE_CHECKING:
    from segue.dialects.server_side.references import Substance

_HELD: Final = re.compile(r"gs://|files/|https://[^/]+/v1[a-z0-9]*/files/")
"""Addresses of files that Google keeps; others can be fetched by anybody."""
_TOOLS: Final = ("file_search", "retrieval", "mcp_server")
_CODE: Final = {"error": {"code": "invalid_request"}}


def _file(content: Any) -> str:
    uri = content.get("uri") if isinstance(content, dict) else None
    return uri if isinstance(uri, str) and _HELD.match(uri) else ""


def _tool(tool: Any) -> str:
    """Stores and servers that a tool of Google's works with; one without any only runs there."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return whole_name(tool) if kind in _TOOLS else ""


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b'"uri"',),
        message="The file {name} is held by the provider that it was uploaded to, and another one answers here.",
        hint="Send data instead, remove the file, or go back to a model of that provider.",
        members=_CODE,
    )


def _there(place: str, what: str, hint: str, stands_for: Substance = "history") -> ReferenceField:
    """What only Gemini itself has (INT-08, INT-11)."""
    return ReferenceField(
        place=place,
        stands_for=stands_for,
        names=name_unless_empty,
        message=f"{what} {{name}} is held by the provider that made it, and another one answers here.",
        hint=hint,
        members=_CODE,
    )


REFERENCES: Final = (
    ReferenceField(
        place="previous_interaction_id",
        stands_for="history",
        names=name_unless_empty,
        message="Interaction {name} not found.",
        status=404,  # INT-10
        code="not_found",
        hint="Send all steps of the conversation as input.",
        members={"error": {"code": "not_found"}},
    ),
    _there("continuation_token", "The continuation token", "Send the request without it."),
    _there("agent", "The agent", "Name a model instead.", "tools"),
    ReferenceField(
        place="environment",
        stands_for="tools",
        names=whole_name,
        message="An environment is a place at the provider that runs it, and another one answers here.",
        hint="Send the request without it, or go back to a model of that provider.",
        members=_CODE,
    ),
    ReferenceField(
        place="webhook_config",
        stands_for="tools",
        names=whole_name,
        message="Webhooks are called by Gemini itself, and another provider answers here.",
        hint="Send the request without it, and ask for the interaction by its id.",
        members=_CODE,
    ),
    _there("cached_content", "The cached content", "Send what it holds."),
    _files("input"),
    _files("input[]"),
    _files("input[].content[]"),
    _files("input[].result[]"),
    ReferenceField(
        place="tools[]",
        stands_for="tools",
        names=_tool,
        message="The tool in {path} works with what only its provider reaches, and another one answers here.",
        hint="Remove the tool or offer functions instead, or go back to a model of that provider.",
        members=_CODE,
    ),
)
