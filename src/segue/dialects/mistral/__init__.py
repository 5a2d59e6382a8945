"""Mistral chat completions: nine-character ids and a strict order of roles."""
