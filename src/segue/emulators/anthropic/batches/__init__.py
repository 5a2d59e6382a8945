"""Batches of messages."""
