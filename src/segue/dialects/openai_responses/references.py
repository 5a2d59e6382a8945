"""What a Responses request may refer to without holding it. Items by their ids are resolved or refused apart (stored_replies.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.dialects.server_side.references import (
    UNNAMED,
    ReferenceField,
    member_name,
    name_or_member,
    text_name,
    whole_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.dialects.server_side.references import Substance

_COMPACTED: Final = ("compaction", "compaction_summary")
_file: Final = member_name("file_id")
_stores: Final = member_name("vector_store_ids", "connector_id", "server_url", "tunnel_id")
_place: Final = member_name("container_id", "file_ids", "skills")


def _prompt(prompt: Any) -> str:
    return member_name("id")(prompt) or UNNAMED


def _compacted(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    return member_name("encrypted_content", "id")(item) if kind in _COMPACTED else ""


def _generated(item: Any) -> str:
    """An image that was made and is named only by its id."""
    kind = item.get("type") if isinstance(item, dict) else None
    return member_name("id")(item) if kind == "image_generation_call" and not item.get("result") else ""


def _item(substance: Substance, names: Callable[[Any], str]) -> ReferenceField:
    return ReferenceField(
        place="input[]",
        stands_for=substance,
        names=names,
        marks=(b'"compaction', b'"image_generation_call"'),
        message="Only the provider that made {path} can read it, and another one answers here.",
        hint="Send the content itself, or go back to a model of that provider.",
    )


def _tool(tool: Any) -> str:
    """Files, places and servers that a tool of the provider works with; one without any only runs there."""
    if not isinstance(tool, dict) or tool.get("type") in ("function", "custom", "namespace"):
        return ""
    container = tool.get("container")
    held = (
        _stores(tool)
        or (container if isinstance(container, str) else _place(container))
        or _place(tool.get("environment"))
        or _file(tool.get("input_image_mask"))
    )
    return whole_name(tool) if held else ""


def _tools(place: str, *marks: bytes) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="tools",
        names=_tool,
        marks=marks,
        message="The tool in {path} works with what only its provider reaches, and another one answers here.",
        hint="Remove the tool or offer functions instead, or go back to a model of that provider.",
    )


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message="The file '{name}' in {path} is held by the provider that gave this id, and another one answers here.",
        hint="Send file_data or an address instead, remove the file, or go back to a model of that provider.",
    )


REFERENCES: Final = (
    ReferenceField(
        place="previous_response_id",
        stands_for="history",
        names=text_name,
        message="Previous response with id '{name}' not found.",
        code="previous_response_not_found",  # RESP-50
        hint="Send the whole conversation as input.",
    ),
    ReferenceField(
        place="conversation",
        stands_for="history",
        names=name_or_member("id"),
        message="Conversation with id '{name}' not found.",
        status=404,  # CNV-04
        code="conversation_not_found",
        hint="Send the whole conversation as input.",
        members={"error": {"code": None}},
    ),
    ReferenceField(
        place="prompt",
        stands_for="history",
        names=_prompt,
        message="Unsupported parameter: 'prompt' stands for what only the provider that holds it has.",
        code="unsupported_parameter",
        hint="Send instructions and input instead.",
        members={"error": {"code": "unsupported_parameter"}},
    ),
    _item("summary", _compacted),
    _item("file", _generated),
    _files("input[].content[]"),
    _files("input[].output[]"),
    _files("input[].output"),
    _tools("tools[]"),
    _tools("input[].tools[]", b'"additional_tools"', b'"tool_search_output"'),
)
