"""Readers of other programs' session files, one module per program."""
