"""The memory: what happened to a conversation, append-only, durable before it is acted on."""
