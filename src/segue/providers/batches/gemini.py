"""Gemini's batches: an operation whose requests and responses stand in it, up to 20 MB, or in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from segue.providers.batches.wire_batch import (
    BatchHandover,
    BatchService,
    Sought,
    WireBatch,
    WireResult,
    count,
    error_of,
    raw_line,
    result_lines,
    roomy,
    seconds_of,
)
from segue.providers.endpoint import in_path, request_json, unreadable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from segue.providers.endpoint import Endpoint
    from segue.transports.transport import WireResponse

_ENDED: Final = ("SUCCEEDED", "CANCELLED", "EXPIRED")
_MISSING: Final = {"CANCELLED": "cancelled", "EXPIRED": "expired"}
_STATUS: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 10: 409, 13: 500, 14: 503, 16: 401}
"""Codes of google.rpc.Status."""
_LIFE: Final = 48 * 3600.0
_PAGES: Final = 20
_INLINE_BYTES: Final = 18 << 20
"""Of the bodies of a batch that is sent as one request; it may have 20 MB."""
_PIECE: Final = 8 << 20
"""Of an upload, at once."""


class _Stats(Struct, rename="camel"):
    request_count: Any = 0
    successful_request_count: Any = 0
    failed_request_count: Any = 0


class _Response(Struct):
    key: str = ""
    response: msgspec.Raw = msgspec.Raw(b"")
    error: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class _Responses(Struct, rename="camel"):
    inlined_responses: list[_Response] = []


class _Output(Struct, rename="camel"):
    inlined_responses: _Responses | None = None
    responses_file: str = ""


class _Metadata(Struct, rename="camel"):
    state: str = ""
    display_name: str = ""
    create_time: str = ""
    batch_stats: _Stats | None = None
    output: _Output | None = None


class _Operation(Struct):
    name: str
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    error: dict[str, Any] | None = None


class _File(Struct):
    name: str


class _Uploaded(Struct):
    file: _File


class _Page(Struct, rename="camel"):
    operations: list[_Operation] = []
    next_page_token: str = ""


async def mark(endpoint: Endpoint) -> str:
    await request_json(roomy(endpoint), "GET", "/batches?pageSize=1", _Page)
    return ""


async def hand_over(endpoint: Endpoint, given: BatchHandover) -> WireBatch:
    config: dict[str, Any]
    if sum(len(body) for _, body in given.lines) <= _INLINE_BYTES:
        requests = [{"request": msgspec.Raw(body), "metadata": {"key": name}} for name, body in given.lines]
        config = {"requests": {"requests": requests}}
    else:
        lines = [raw_line({"key": name}, "request", body) for name, body in given.lines]
        config = {"fileName": await _upload(endpoint, given.token, b"\n".join(lines))}
    batch = {"displayName": given.token, "inputConfig": config}
    path = f"/models/{in_path(given.model)}:batchGenerateContent"
    return _read(await request_json(endpoint, "POST", path, _Operation, {"batch": batch}))


async def _upload(endpoint: Endpoint, token: str, content: bytes) -> str:
    """A resumable upload."""
    start = {
        "x-goog-upload-protocol": "resumable",
        "x-goog-upload-command": "start",
        "x-goog-upload-header-content-length": str(len(content)),
        "x-goog-upload-header-content-type": "application/jsonl",
    }
    about = msgspec.json.encode({"file": {"displayName": token, "mimeType": "application/jsonl"}})
    target, received = await begin_upload(endpoint, about, start), b""
    for offset in range(0, len(content), _PIECE):
        last = offset + _PIECE >= len(content)
        headers = {
            "content-type": "application/octet-stream",
            "x-goog-upload-command": "upload, finalize" if last else "upload",
            "x-goog-upload-offset": str(offset),
        }
        async with upload_piece(endpoint, target, content[offset : offset + _PIECE], headers) as answer:
            received = await answer.read()
    try:
        return msgspec.json.decode(received, type=_Uploaded).file.name
    except msgspec.DecodeError as error:
        raise unreadable(endpoint, "an upload", str(error)) from error


async def begin_upload(endpoint: Endpoint, about: bytes, headers: Mapping[str, str]) -> str:
    """The address that Gemini gives for the bytes of a file, without its host, where a proxy may be."""
    version = endpoint.base_url.rpartition("/")[2]
    async with endpoint.ask("POST", f"/../upload/{version}/files", about, headers=headers) as answer:
        await answer.read()
        named = urlsplit(answer.headers.get("x-goog-upload-url", ""))
    if not named.path:
        raise unreadable(endpoint, "the beginning of an upload", "there is no address to upload to")
    return f"{named.path}?{named.query}"


def upload_piece(
    endpoint: Endpoint, target: str, piece: bytes, headers: Mapping[str, str]
) -> AbstractAsyncContextManager[WireResponse]:
    there = endpoint.at("{0.scheme}://{0.netloc}".format(urlsplit(endpoint.base_url)))
    return there.ask("POST", target, piece, headers=headers)


async def find(endpoint: Endpoint, sought: Sought) -> WireBatch | None:
    path = "/batches?pageSize=20"
    for _ in range(_PAGES):
        page = await request_json(roomy(endpoint), "GET", path, _Page)
        for one in page.operations:
            if one.metadata.display_name == sought.token:
                return _read(one)
        if not page.next_page_token:
            break
        path = f"/batches?pageSize=20&pageToken={page.next_page_token}"
    return None


async def look(endpoint: Endpoint, name: str) -> WireBatch:
    return _read(await _operation(endpoint, name))


async def _operation(endpoint: Endpoint, name: str) -> _Operation:
    """One that has ended is described with all of its responses."""
    return await request_json(roomy(endpoint), "GET", f"/{name}", _Operation)


def _read(operation: _Operation) -> WireBatch:
    about = operation.metadata
    state = about.state.rpartition("_STATE_")[2]
    stats = about.batch_stats or _Stats()
    failed, made = count(stats.failed_request_count), seconds_of(about.create_time)
    return WireBatch(
        id=operation.name,
        state="refused" if state == "FAILED" else "ended" if state in _ENDED else "running",
        total=count(stats.request_count),
        done=count(stats.successful_request_count) + failed,
        failed=failed,
        expires=None if made is None else made + _LIFE,
        missing=_MISSING.get(state, "failed"),  # type: ignore[arg-type]
        problem=str((operation.error or {}).get("message", "")),
    )


_LINE: Final = msgspec.json.Decoder(_Response)


async def results(endpoint: Endpoint, batch: WireBatch) -> AsyncIterator[WireResult]:
    output = (await _operation(endpoint, batch.id)).metadata.output
    if output is not None and output.responses_file:
        async with result_lines(endpoint, f"/{output.responses_file}:download?alt=media") as lines:
            async for line in lines:
                yield read_response(endpoint, _LINE.decode(line))
        return
    inlined = output.inlined_responses if output is not None else None
    for one in inlined.inlined_responses if inlined is not None else ():
        yield read_response(endpoint, one)


def read_response(endpoint: Endpoint, one: _Response) -> WireResult:
    name = one.key or str((one.metadata or {}).get("key", ""))
    if bytes(one.response):
        return WireResult(name=name, outcome="succeeded", body=bytes(one.response))
    error = one.error or {}
    code = count(error.get("code"))
    status = _STATUS.get(code, code if 400 <= code < 600 else 500)
    return WireResult(
        name=name, outcome="failed", error=error_of(endpoint, status, {"error": {**error, "code": status}})
    )


async def cancel(endpoint: Endpoint, name: str) -> None:
    await endpoint.json("POST", f"/{name}:cancel")


SERVICE: Final = BatchService(
    most_requests=50_000,
    most_bytes=190 << 20,
    mark=mark,
    hand_over=hand_over,
    find=find,
    look=look,
    results=results,
    cancel=cancel,
    begin_upload=begin_upload,
    upload_piece=upload_piece,
)
