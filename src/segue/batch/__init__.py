"""Batches: many requests to one model for half the price, in one form for all providers."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.batch.batch": "Batch BatchStatus batch_files",
    "segue.batch.lines": "BatchRequest read_lines",
    "segue.batch.outcome": "BatchResult ResultCall ResultError",
    "segue.batch.runner": "Pace",
    "segue.batch.sessions": "save_sessions",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
