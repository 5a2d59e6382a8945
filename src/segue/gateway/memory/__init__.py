"""What the gateway remembers: replies under their call ids or text, stored objects, conversations. See `memory.Memory`."""
