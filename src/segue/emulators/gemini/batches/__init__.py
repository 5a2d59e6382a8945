"""Batches of requests."""
