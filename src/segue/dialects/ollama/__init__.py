"""Ollama's own /api/chat: one JSON object per line."""
