"""What a Messages request may refer to without holding it."""

from __future__ import annotations

from typing import Any, Final

from segue.dialects.references import UNNAMED, ReferenceField, member_name, whole_name

_SEND_IT: Final = "Send the content itself, remove the file, or go back to a model of that provider."
_NOT_HELD: Final = "`{name}` is held by the provider that gave this id, and another one answers here."
_file: Final = member_name("file_id")


def _continued(thread: Any) -> str:
    """THR-02: a thread that is created has nothing before it."""
    if not isinstance(thread, dict) or thread.get("type") == "create":
        return ""
    previous = thread.get("previous_message_id")
    return previous if isinstance(previous, str) and previous else UNNAMED


def _compacted(block: Any) -> str:
    """A summary that only the provider can read; one in words is content like any other, and one without either is void."""
    if not isinstance(block, dict) or block.get("type") != "compaction" or block.get("content"):
        return ""
    return member_name("encrypted_content", "signature")(block)


def _uploaded(block: Any) -> str:
    return _file(block) if isinstance(block, dict) and block.get("type") == "container_upload" else ""


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message=f"File {_NOT_HELD}",
        hint=_SEND_IT,
    )


REFERENCES: Final = (
    ReferenceField(
        place="thread",
        stands_for="history",
        names=_continued,
        message="The thread of the message `{name}` is not held here.",
        status=404,  # THR-16: the only answer that every client survives
        code="thread_not_found",
        hint="Send the whole conversation.",
        members={"error": {"details": {"error_code": "thread_not_found"}}},
        replayed=True,
    ),
    ReferenceField(
        place="container",
        stands_for="tools",
        names=whole_name,
        message="A container is at the provider that made it, and another one answers here.",
        hint="Send the request without a container, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="mcp_servers",
        stands_for="tools",
        names=whole_name,
        message="The provider that answers here asks no MCP servers, so the model would not have their tools.",
        hint="Offer the tools themselves, or go back to a model of the provider that runs them.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="summary",
        names=_compacted,
        marks=(b'"compaction"',),
        message="Only the provider that compacted this conversation can read the block, and another one answers here.",
        hint="Send the messages that it stands for, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="file",
        names=_uploaded,
        marks=(b'"file_id"',),
        message=f"File {_NOT_HELD}",
        hint=_SEND_IT,
    ),
    _files("messages[].content[].source"),
    _files("messages[].content[].content[].source"),
)
