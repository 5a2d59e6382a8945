# Written by python -m scripts.namespaces --write

from segue.conversation.tools import ToolSpec
from segue.tools.approval import Approval
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Approves, Context, Output, Tool
from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.mcp.servers import McpServers

__all__ = [
    "Approval",
    "Approves",
    "Context",
    "McpServers",
    "Output",
    "Tool",
    "ToolSpec",
    "as_tool",
    "builtin_tools",
    "run_tool",
    "tool",
]
