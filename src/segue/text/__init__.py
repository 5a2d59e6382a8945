"""Texts: without secrets, safe for a terminal, names that are nearly right, patterns of addresses."""
