"""Mistral's batches: a file of requests, a job, and two files of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from segue.providers.batches.openai_like import results
from segue.providers.batches.wire_batch import (
    BatchHandover,
    BatchService,
    Sought,
    WireBatch,
    raw_line,
    upload_lines,
)
from segue.providers.endpoint import request_json

if TYPE_CHECKING:
    from segue.providers.endpoint import Endpoint

_TOKEN: Final = "segue"  # noqa: S105 - a name in the metadata
_MISSING: Final = {"TIMEOUT_EXCEEDED": "expired", "CANCELLED": "cancelled"}
_ENDED: Final = ("SUCCESS", *_MISSING)
_HOURS: Final = 24
_PAGES: Final = 20


class _Problem(Struct):
    message: str = ""


class _Job(Struct):
    id: str
    status: str
    created_at: float = 0.0
    metadata: dict[str, Any] | None = None
    output_file: str | None = None
    error_file: str | None = None
    total_requests: int = 0
    completed_requests: int = 0
    failed_requests: int = 0
    errors: list[_Problem] = []


class _Jobs(Struct):
    data: list[_Job] | None = None


async def mark(endpoint: Endpoint) -> str:
    await request_json(endpoint, "GET", "/batch/jobs?page_size=1", _Jobs)
    return ""


async def hand_over(endpoint: Endpoint, given: BatchHandover) -> WireBatch:
    lines = [raw_line({"custom_id": name}, "body", body) for name, body in given.lines]
    asked = {
        "input_files": [await upload_lines(endpoint, f"{given.token}.jsonl", lines)],
        "endpoint": f"/v1{given.path}",
        "model": given.model,
        "metadata": {_TOKEN: given.token},
        "timeout_hours": _HOURS,
    }
    return _read(await request_json(endpoint, "POST", "/batch/jobs", _Job, asked))


async def find(endpoint: Endpoint, sought: Sought) -> WireBatch | None:
    for page in range(_PAGES):
        jobs = await request_json(endpoint, "GET", f"/batch/jobs?page={page}&page_size=100", _Jobs)
        for job in jobs.data or ():
            if (job.metadata or {}).get(_TOKEN) == sought.token:
                return _read(job)
        if len(jobs.data or ()) < 100:
            break
    return None


async def look(endpoint: Endpoint, name: str) -> WireBatch:
    return _read(await request_json(endpoint, "GET", f"/batch/jobs/{name}", _Job))


def _read(job: _Job) -> WireBatch:
    made = tuple(file for file in (job.output_file, job.error_file) if file)
    refused = job.status == "FAILED" and not made
    ended = job.status in (*_ENDED, "FAILED")
    return WireBatch(
        id=job.id,
        state="refused" if refused else "ended" if ended else "running",
        total=job.total_requests,
        done=job.completed_requests,
        failed=job.failed_requests,
        files=made,
        expires=job.created_at + _HOURS * 3600 if job.created_at else None,
        missing=_MISSING.get(job.status, "failed"),  # type: ignore[arg-type]
        problem=job.errors[0].message if job.errors else "",
    )


async def cancel(endpoint: Endpoint, name: str) -> None:
    await endpoint.json("POST", f"/batch/jobs/{name}/cancel")


SERVICE: Final = BatchService(
    most_requests=1_000_000,
    most_bytes=190 << 20,
    mark=mark,
    hand_over=hand_over,
    find=find,
    look=look,
    results=results,
    cancel=cancel,
)
