"""What a Mistral request may refer to without holding it."""

from __future__ import annotations

from typing import Any, Final

from segue.dialects.references import ReferenceField, member_name, text_name


def _file(chunk: Any) -> str:
    return member_name("file_id")(chunk) if isinstance(chunk, dict) and chunk.get("type") == "file" else ""


def _history(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="history",
        names=text_name,
        message="The conversation of '{name}' is not held here.",
        status=404,
        code="conversation_not_found",
        hint="Send the whole conversation as messages.",
        members={"type": "not_found"},
    )


REFERENCES: Final = (
    *map(_history, ("conversation_id", "from_entry_id")),
    ReferenceField(
        place="agent_id",
        stands_for="history",
        names=text_name,
        message="The agent '{name}' is held by the provider that it was made at, and another one answers here.",
        hint="Send its instructions and tools themselves.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message="The file '{name}' is held by the provider that gave this id, and another one answers here.",
        hint="Send an address instead, remove the file, or go back to a model of that provider.",
    ),
)
