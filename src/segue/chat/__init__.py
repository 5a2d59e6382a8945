"""The runtime: chats, turns, tools, routes."""
