"""What a model may do: tools, their arguments and approval, the scheduler that runs calls, built-in tools and MCP."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.conversation.tools": "ToolSpec",
    "segue.tools.approval": "Approval ask_later",
    "segue.tools.builtin": "builtin_tools",
    "segue.tools.definition": "Approves Context Output PendingApproval Tool",
    "segue.tools.execution": "run_tool",
    "segue.tools.function_tools": "as_tool tool",
    "segue.tools.mcp.servers": "McpServers",
    "segue.tools.sandbox.policy": "Grant",
    "segue.tools.sandbox.sandbox": "Sandbox",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
