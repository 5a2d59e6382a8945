"""One provider-neutral conversation, rendered valid for whichever language model comes next."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segue.conversation.blocks import Code, Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
    from segue.conversation.document import decode_document, encode_document
    from segue.conversation.interaction import Interaction, Ledger
    from segue.conversation.message import Conversation, Message
    from segue.errors import SegueError
    from segue.handoff.convert import convert
    from segue.transcript.adopt import adopt, rebuild
    from segue.transcript.policy import Policy
    from segue.transcript.render import render
    from segue.transcript.repairs import Repair
    from segue.transcript.rules import Rules
    from segue.transcript.steps import Transcript

_HOMES = {
    "Code": "segue.conversation.blocks",
    "Conversation": "segue.conversation.message",
    "Interaction": "segue.conversation.interaction",
    "Ledger": "segue.conversation.interaction",
    "Media": "segue.conversation.blocks",
    "Message": "segue.conversation.message",
    "Origin": "segue.conversation.blocks",
    "Policy": "segue.transcript.policy",
    "Reasoning": "segue.conversation.blocks",
    "Repair": "segue.transcript.repairs",
    "Rules": "segue.transcript.rules",
    "Seal": "segue.conversation.blocks",
    "SegueError": "segue.errors",
    "Text": "segue.conversation.blocks",
    "ToolCall": "segue.conversation.blocks",
    "ToolResult": "segue.conversation.blocks",
    "Transcript": "segue.transcript.steps",
    "adopt": "segue.transcript.adopt",
    "convert": "segue.handoff.convert",
    "decode_document": "segue.conversation.document",
    "encode_document": "segue.conversation.document",
    "rebuild": "segue.transcript.adopt",
    "render": "segue.transcript.render",
}
"""Public name → the module it lives in. Each is loaded when it is first asked for, so importing segue costs nothing."""

__all__ = [
    "Code",
    "Conversation",
    "Interaction",
    "Ledger",
    "Media",
    "Message",
    "Origin",
    "Policy",
    "Reasoning",
    "Repair",
    "Rules",
    "Seal",
    "SegueError",
    "Text",
    "ToolCall",
    "ToolResult",
    "Transcript",
    "adopt",
    "convert",
    "decode_document",
    "encode_document",
    "rebuild",
    "render",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
