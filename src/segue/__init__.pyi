# Written by python -m scripts.namespaces --write

from segue.chat.agent import Agent
from segue.chat.attachments import attachment
from segue.chat.blocking import BlockingChat
from segue.chat.chat import Chat
from segue.chat.compaction.trigger import CompactionSettings
from segue.chat.routed_embeddings import EmbeddingResult, embed
from segue.chat.subagent import subagent_tool
from segue.chat.turn import Answer
from segue.chat.turn_settings import Budget, TurnOptions
from segue.conversation.blocks import Block, Citation, Code, Media, Origin, Reasoning, Seal, SourcePlace, Text, ToolCall, ToolResult
from segue.conversation.document import decode_document, encode_document
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.interop.convert import Converted, convert
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.registry import ProviderRegistry, default_registry
from segue.providers.scripted import ScriptedProvider
from segue.routing.route import Route
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.tools.approval import Approval
from segue.tools.definition import AskAgain, Context, Tool
from segue.tools.function_tools import tool
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.repairs import Repair
from segue.transcript.rules import Rules
from segue.transcript.steps import Transcript

__version__: str

__all__ = [
    "Agent",
    "Answer",
    "Approval",
    "AskAgain",
    "Block",
    "BlockingChat",
    "Budget",
    "Chat",
    "ChatRequest",
    "Citation",
    "Code",
    "CompactionSettings",
    "Context",
    "Conversation",
    "Converted",
    "EmbeddingResult",
    "Interaction",
    "JsonlStore",
    "Ledger",
    "Media",
    "MemoryStore",
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
    "SourcePlace",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Transcript",
    "TurnOptions",
    "Usage",
    "adopt",
    "attachment",
    "convert",
    "decode_document",
    "default_registry",
    "embed",
    "encode_document",
    "rebuild",
    "render",
    "subagent_tool",
    "tool",
]
