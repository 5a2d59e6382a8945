"""Anthropic Messages: content blocks, results inside the next user message, signed thinking."""
