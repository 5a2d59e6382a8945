# Written by python -m scripts.namespaces --write

from segue.batch.batch import Batch, BatchStatus, batch_files
from segue.batch.lines import BatchRequest, read_lines
from segue.batch.outcome import BatchResult, ResultCall, ResultError
from segue.batch.runner import Pace
from segue.batch.sessions import save_sessions

__all__ = [
    "Batch",
    "BatchRequest",
    "BatchResult",
    "BatchStatus",
    "Pace",
    "ResultCall",
    "ResultError",
    "batch_files",
    "read_lines",
    "save_sessions",
]
