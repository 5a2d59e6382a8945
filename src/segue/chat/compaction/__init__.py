"""Making a conversation shorter without splitting a call from its result."""
