"""One provider-neutral conversation, rendered valid for whichever language model comes next."""

from __future__ import annotations

from segue.namespace import public_names

__version__ = "0.2.0"
_HOMES = {
    "segue.chat.agent": "Agent",
    "segue.chat.attachments": "attachment",
    "segue.chat.blocking": "BlockingChat",
    "segue.chat.chat": "Chat",
    "segue.chat.compaction.trigger": "CompactionSettings",
    "segue.chat.routed_embeddings": "EmbeddingResult embed",
    "segue.chat.subagent": "subagent_tool",
    "segue.chat.turn": "Answer",
    "segue.chat.turn_settings": "Budget TurnOptions",
    "segue.conversation.blocks": "Block Citation Code Media Origin Reasoning Seal SourcePlace Text ToolCall ToolResult",
    "segue.conversation.document": "decode_document encode_document",
    "segue.conversation.interaction": "Interaction Ledger",
    "segue.conversation.message": "Conversation Message",
    "segue.conversation.options": "Options",
    "segue.conversation.tools": "ToolSpec",
    "segue.conversation.usage": "Usage",
    "segue.errors": "SegueError",
    "segue.interop.convert": "Converted convert",
    "segue.providers.adapter": "ChatRequest ProviderAdapter",
    "segue.providers.registry": "ProviderRegistry default_registry",
    "segue.providers.scripted": "ScriptedProvider",
    "segue.routing.route": "Route",
    "segue.sessions.stores.jsonl": "JsonlStore",
    "segue.sessions.stores.memory": "MemoryStore",
    "segue.sessions.stores.sqlite": "SQLiteStore",
    "segue.tools.approval": "Approval",
    "segue.tools.definition": "AskAgain Context Tool",
    "segue.tools.function_tools": "tool",
    "segue.transcript.adopt": "adopt rebuild",
    "segue.transcript.policy": "Policy",
    "segue.transcript.render": "render",
    "segue.transcript.repairs": "Repair",
    "segue.transcript.rules": "Rules",
    "segue.transcript.steps": "Transcript",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
