"""What a model may do: tools, their arguments and approval, the scheduler that runs calls, built-in tools and MCP."""
