"""Thin layers for frameworks and engines of others. Each module needs what it is named after; nothing is imported here."""
