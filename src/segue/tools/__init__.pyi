# Written by python -m scripts.namespaces --write

from segue.conversation.tools import ToolSpec
from segue.tools.approval import Approval, ask_later
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Approves, Context, Output, PendingApproval, Tool
from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.mcp.servers import McpServers
from segue.tools.sandbox.policy import Grant
from segue.tools.sandbox.sandbox import Sandbox

__all__ = [
    "Approval",
    "Approves",
    "Context",
    "Grant",
    "McpServers",
    "Output",
    "PendingApproval",
    "Sandbox",
    "Tool",
    "ToolSpec",
    "as_tool",
    "ask_later",
    "builtin_tools",
    "run_tool",
    "tool",
]
