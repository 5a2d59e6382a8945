"""What a Chat request may refer to without holding it."""

from __future__ import annotations

from typing import Any, Final

from segue.dialects.references import ReferenceField, member_name


def _file(part: Any) -> str:
    """A file by its id; one that comes along may have an id, too."""
    return member_name("file_id")(part) if isinstance(part, dict) and not part.get("file_data") else ""


def _spoken(message: Any) -> str:
    """A reply that was spoken, of which only the provider has the words; clients may return them with it."""
    if not isinstance(message, dict) or message.get("content"):
        return ""
    return "" if member_name("transcript")(message.get("audio")) else member_name("id")(message.get("audio"))


def _with_words(message: Any, words: str) -> Any:
    return {**message, "content": words}


REFERENCES: Final = (
    ReferenceField(
        place="messages[].content[].file",
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message="The file '{name}' in {path} is held by the provider that gave this id, and another one answers here.",
        hint="Send file_data instead, remove the file, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="messages[]",
        stands_for="file",
        names=_spoken,
        marks=(b'"audio"',),
        fill=_with_words,
        message="The spoken reply '{name}' in {path} is held by the provider that made it, and another one answers here.",
        hint="Send its words as content or as audio.transcript, or go back to a model of that provider.",
    ),
)
