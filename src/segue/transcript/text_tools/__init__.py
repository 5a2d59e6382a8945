"""Tool calls in plain text, for models without native calling: the forms, used by the chat and the embedded model."""
