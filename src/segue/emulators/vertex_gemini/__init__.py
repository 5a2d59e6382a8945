"""Gemini at Google Cloud: its wire with a token instead of a key, without ids, and with another count of tokens."""
