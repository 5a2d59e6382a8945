"""Anthropic's batches: the requests stand in the request that creates the batch.

A batch bears nothing of ours but the names of its requests, which only its results show. One that was perhaps handed over
before a crash is looked for among those that are newer than the newest one was before, by the number of its requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from segue.providers.batches.wire_batch import (
    BatchHandover,
    BatchService,
    Sought,
    WireBatch,
    WireResult,
    error_of,
    raw_line,
    result_lines,
    seconds_of,
)
from segue.providers.endpoint import request_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from segue.providers.endpoint import Endpoint

_PATH: Final = "/v1/messages/batches"
_STATUS: Final = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _Counts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _Batch(Struct):
    id: str
    processing_status: str
    request_counts: _Counts
    expires_at: str | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False
    last_id: str | None = None


async def mark(endpoint: Endpoint) -> str:
    page = await request_json(endpoint, "GET", f"{_PATH}?limit=1", _Page)
    return page.data[0].id if page.data else ""


async def hand_over(endpoint: Endpoint, given: BatchHandover) -> WireBatch:
    requests = [msgspec.Raw(raw_line({"custom_id": name}, "params", body)) for name, body in given.lines]
    return _read(await request_json(endpoint, "POST", _PATH, _Batch, {"requests": requests}))


async def find(endpoint: Endpoint, sought: Sought) -> WireBatch | None:
    path = f"{_PATH}?limit=1000"
    while True:
        page = await request_json(endpoint, "GET", path, _Page)
        for one in page.data:
            if one.id == sought.mark:
                return None
            if one.id not in sought.others and one.request_counts.total == sought.count:
                return _read(one)
        if not page.has_more or not page.last_id:
            return None
        path = f"{_PATH}?limit=1000&after_id={page.last_id}"


async def look(endpoint: Endpoint, name: str) -> WireBatch:
    return _read(await request_json(endpoint, "GET", f"{_PATH}/{name}", _Batch))


def _read(batch: _Batch) -> WireBatch:
    counts = batch.request_counts
    return WireBatch(
        id=batch.id,
        state="ended" if batch.processing_status == "ended" else "running",
        total=counts.total,
        done=counts.total - counts.processing,
        failed=counts.errored,
        expires=seconds_of(batch.expires_at),
    )


class _Result(Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"")
    error: Any = None


class _Line(Struct):
    custom_id: str
    result: _Result


_LINE: Final = msgspec.json.Decoder(_Line)


async def results(endpoint: Endpoint, batch: WireBatch) -> AsyncIterator[WireResult]:
    async with result_lines(endpoint, f"{_PATH}/{batch.id}/results") as lines:
        async for line in lines:
            yield read_line(endpoint, _LINE.decode(line))


def read_line(endpoint: Endpoint, line: _Line) -> WireResult:
    match line.result.type:
        case "succeeded":
            return WireResult(name=line.custom_id, outcome="succeeded", body=bytes(line.result.message))
        case "expired":
            return WireResult(name=line.custom_id, outcome="expired")
        case "canceled":
            return WireResult(name=line.custom_id, outcome="cancelled")
        case _:
            error = line.result.error
            inner = error.get("error") if isinstance(error, dict) else None
            kind = inner.get("type") if isinstance(inner, dict) else None
            status = _STATUS.get(str(kind), 400)
            return WireResult(name=line.custom_id, outcome="failed", error=error_of(endpoint, status, error))


async def cancel(endpoint: Endpoint, name: str) -> None:
    await endpoint.json("POST", f"{_PATH}/{name}/cancel")


SERVICE: Final = BatchService(
    most_requests=100_000,
    most_bytes=240 << 20,
    mark=mark,
    hand_over=hand_over,
    find=find,
    proves_itself=False,
    look=look,
    results=results,
    cancel=cancel,
)
