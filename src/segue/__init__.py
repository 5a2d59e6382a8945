"""One provider-neutral conversation, rendered valid for whichever language model comes next."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segue.chat.blocking import BlockingChat
    from segue.chat.budget import Budget
    from segue.chat.chat import Chat
    from segue.chat.compaction.trigger import CompactionSettings
    from segue.chat.session import Answer
    from segue.chat.subagent import subagent_tool
    from segue.conversation.blocks import Code, Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
    from segue.conversation.document import decode_document, encode_document
    from segue.conversation.interaction import Interaction, Ledger
    from segue.conversation.message import Conversation, Message
    from segue.conversation.options import Options
    from segue.errors import SegueError
    from segue.interop.convert import convert
    from segue.providers.adapter import ChatRequest, ProviderAdapter
    from segue.providers.registry import ProviderRegistry, default_registry
    from segue.providers.scripted import ScriptedProvider
    from segue.routing.route import Route
    from segue.sessions.stores.jsonl import JsonlStore
    from segue.sessions.stores.sqlite import SQLiteStore
    from segue.tools.approval import Approval
    from segue.tools.definition import Tool
    from segue.tools.function_tools import tool
    from segue.transcript.adopt import adopt, rebuild
    from segue.transcript.policy import Policy
    from segue.transcript.render import render
    from segue.transcript.repairs import Repair
    from segue.transcript.rules import Rules
    from segue.transcript.steps import Transcript

_HOMES = {
    "Answer": "segue.chat.session",
    "Approval": "segue.tools.approval",
    "BlockingChat": "segue.chat.blocking",
    "Budget": "segue.chat.budget",
    "Chat": "segue.chat.chat",
    "ChatRequest": "segue.providers.adapter",
    "Code": "segue.conversation.blocks",
    "CompactionSettings": "segue.chat.compaction.trigger",
    "Conversation": "segue.conversation.message",
    "Interaction": "segue.conversation.interaction",
    "JsonlStore": "segue.sessions.stores.jsonl",
    "Ledger": "segue.conversation.interaction",
    "Media": "segue.conversation.blocks",
    "Message": "segue.conversation.message",
    "Options": "segue.conversation.options",
    "Origin": "segue.conversation.blocks",
    "Policy": "segue.transcript.policy",
    "ProviderAdapter": "segue.providers.adapter",
    "ProviderRegistry": "segue.providers.registry",
    "Reasoning": "segue.conversation.blocks",
    "Repair": "segue.transcript.repairs",
    "Route": "segue.routing.route",
    "Rules": "segue.transcript.rules",
    "SQLiteStore": "segue.sessions.stores.sqlite",
    "ScriptedProvider": "segue.providers.scripted",
    "Seal": "segue.conversation.blocks",
    "SegueError": "segue.errors",
    "Text": "segue.conversation.blocks",
    "Tool": "segue.tools.definition",
    "ToolCall": "segue.conversation.blocks",
    "ToolResult": "segue.conversation.blocks",
    "Transcript": "segue.transcript.steps",
    "adopt": "segue.transcript.adopt",
    "convert": "segue.interop.convert",
    "decode_document": "segue.conversation.document",
    "default_registry": "segue.providers.registry",
    "encode_document": "segue.conversation.document",
    "rebuild": "segue.transcript.adopt",
    "render": "segue.transcript.render",
    "subagent_tool": "segue.chat.subagent",
    "tool": "segue.tools.function_tools",
}
"""Public name → the module it lives in. Each is loaded when it is first asked for, so importing segue costs nothing."""

__all__ = [
    "Answer",
    "Approval",
    "BlockingChat",
    "Budget",
    "Chat",
    "ChatRequest",
    "Code",
    "CompactionSettings",
    "Conversation",
    "Interaction",
    "JsonlStore",
    "Ledger",
    "Media",
    "Message",
    "Options",
    "Origin",
    "Policy",
    "ProviderAdapter",
    "ProviderRegistry",
    "Reasoning",
    "Repair",
    "Route",
    "Rules",
    "SQLiteStore",
    "ScriptedProvider",
    "Seal",
    "SegueError",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Transcript",
    "adopt",
    "convert",
    "decode_document",
    "default_registry",
    "encode_document",
    "rebuild",
    "render",
    "subagent_tool",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
