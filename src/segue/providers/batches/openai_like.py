"""OpenAI's batches: a file of requests, a batch of the file, and two files of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from segue.providers.batches.wire_batch import (
    BatchHandover,
    BatchService,
    RefusedLine,
    Sought,
    WireBatch,
    WireResult,
    error_of,
    raw_line,
    result_lines,
    upload_lines,
)
from segue.providers.endpoint import request_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from segue.providers.endpoint import Endpoint

_TOKEN: Final = "segue"  # noqa: S105 - a name in the metadata
_ENDED: Final = ("completed", "expired", "cancelled")
_EXPIRED: Final = "batch_expired"
_PAGES: Final = 20
"""Of a hundred batches each: nobody starts more between a crash and the next try."""


class _Counts(Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Problem(Struct):
    code: str | None = None
    message: str | None = None
    line: int | None = None


class _Problems(Struct):
    data: list[_Problem] = []


class _Batch(Struct):
    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    expires_at: float | None = None
    request_counts: _Counts | None = None
    metadata: dict[str, Any] | None = None
    errors: _Problems | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False


async def mark(endpoint: Endpoint) -> str:
    await request_json(endpoint, "GET", "/batches?limit=1", _Page)
    return ""


async def hand_over(endpoint: Endpoint, given: BatchHandover) -> WireBatch:
    path = f"/v1{given.path}"
    lines = [
        raw_line({"custom_id": name, "method": "POST", "url": path}, "body", body)
        for name, body in given.lines
    ]
    file = await upload_lines(endpoint, f"{given.token}.jsonl", lines)
    asked = {
        "input_file_id": file,
        "endpoint": path,
        "completion_window": "24h",
        "metadata": {_TOKEN: given.token},
    }
    return _read(await request_json(endpoint, "POST", "/batches", _Batch, asked))


async def find(endpoint: Endpoint, sought: Sought) -> WireBatch | None:
    path = "/batches?limit=100"
    for _ in range(_PAGES):
        page = await request_json(endpoint, "GET", path, _Page)
        for one in page.data:
            if (one.metadata or {}).get(_TOKEN) == sought.token:
                return _read(one)
        if not page.has_more or not page.data:
            break
        path = f"/batches?limit=100&after={page.data[-1].id}"
    return None


async def look(endpoint: Endpoint, name: str) -> WireBatch:
    return _read(await request_json(endpoint, "GET", f"/batches/{name}", _Batch))


def _read(batch: _Batch) -> WireBatch:
    counts = batch.request_counts or _Counts()
    problems = batch.errors.data if batch.errors is not None else []
    first = next(iter(problems), _Problem())
    state = "ended" if batch.status in _ENDED else "refused" if batch.status == "failed" else "running"
    return WireBatch(
        id=batch.id,
        state=state,  # type: ignore[arg-type]  # of the three
        total=counts.total,
        done=counts.completed + counts.failed,
        failed=counts.failed,
        files=tuple(file for file in (batch.output_file_id, batch.error_file_id) if file),
        expires=batch.expires_at,
        missing={"cancelled": "cancelled", "expired": "expired"}.get(batch.status, "failed"),  # type: ignore[arg-type]
        problem=first.message or "",
        problem_code=first.code or "",
        refused=tuple(
            RefusedLine(one.line - 1, one.code or "", one.message or "")
            for one in problems
            if one.line is not None
        ),
    )


class _Response(Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(Struct):
    custom_id: str
    response: _Response | None = None
    error: Any = None


_LINE: Final = msgspec.json.Decoder(_Line)


async def results(endpoint: Endpoint, batch: WireBatch) -> AsyncIterator[WireResult]:
    for file in batch.files:
        async with result_lines(endpoint, f"/files/{file}/content") as lines:
            async for line in lines:
                yield read_line(endpoint, _LINE.decode(line))


def read_line(endpoint: Endpoint, line: _Line) -> WireResult:
    """A request that was refused stands in a response with its status; `error` has what never got so far."""
    response = line.response
    if response is not None and response.status_code < 400:
        return WireResult(name=line.custom_id, outcome="succeeded", body=bytes(response.body))
    code = line.error.get("code") if isinstance(line.error, dict) else None
    if code == _EXPIRED:
        return WireResult(name=line.custom_id, outcome="expired")
    if response is not None:
        body: Any = msgspec.json.decode(response.body)
        return WireResult(
            name=line.custom_id, outcome="failed", error=error_of(endpoint, response.status_code, body)
        )
    return WireResult(
        name=line.custom_id, outcome="failed", error=error_of(endpoint, 500, {"error": line.error})
    )


async def cancel(endpoint: Endpoint, name: str) -> None:
    await endpoint.json("POST", f"/batches/{name}/cancel")


SERVICE: Final = BatchService(
    most_requests=50_000,
    most_bytes=190 << 20,
    mark=mark,
    hand_over=hand_over,
    find=find,
    look=look,
    results=results,
    cancel=cancel,
)
