"""Batches of messages.

`/v1/messages/batches`: create, read, list, cancel, delete, and the results (ANT-B01 to ANT-B08).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators import batch_jobs
from segue.emulators.anthropic import checks
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.batch_jobs import Answered, Job, Task
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "anthropic"
MOST = 100_000
KEPT = 29 * batch_jobs.DAY
"""Results can be read for so long after the batch was created."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_STREAMED = "stream: Streaming is not supported for requests in a batch"


@rule("ANT-B01")
@rule("ANT-B02")
def complaints(body: object, context: Context) -> Complaints:  # noqa: ARG001 - a check
    if not isinstance(body, dict):
        yield Refusal("ANT-B01", "Input should be a valid dictionary")
        return
    for name in body:
        if name != "requests":
            yield Refusal("ANT-B01", f"{name}: Extra inputs are not permitted")
    requests = body.get("requests")
    if requests is None:
        yield Refusal("ANT-B01", "requests: Field required")
        return
    if not isinstance(requests, list):
        yield Refusal("ANT-B01", "requests: Input should be a valid list")
        return
    if not requests:
        yield Refusal("ANT-B01", "requests: List should have at least 1 item after validation, not 0")
    if len(requests) > MOST:
        text = "Request exceeds the maximum size"
        yield Refusal("ANT-B02", text, status=413, type="request_too_large")
    for place, one in enumerate(requests):
        yield from _entry(one, f"requests.{place}")
    names = [one.get("custom_id") for one in requests if isinstance(one, dict)]
    seen = set[str]()
    for name in map(str, names):
        if name in seen:
            yield Refusal("ANT-B02", f"requests: custom_id must be unique within the batch: {name}")
        seen.add(name)


def _entry(one: object, place: str) -> Complaints:
    if not isinstance(one, dict):
        yield Refusal("ANT-B01", f"{place}: Input should be a valid dictionary")
        return
    for name in ("custom_id", "params"):
        if name not in one:
            yield Refusal("ANT-B01", f"{place}.{name}: Field required")
    name = one.get("custom_id", "-")
    if not isinstance(name, str):
        yield Refusal("ANT-B02", f"{place}.custom_id: Input should be a valid string")
    elif len(name) > 64:
        yield Refusal("ANT-B02", f"{place}.custom_id: String should have at most 64 characters")
    elif not _ID.fullmatch(name):
        yield Refusal("ANT-B02", f"{place}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    if not isinstance(one.get("params", {}), dict):
        yield Refusal("ANT-B01", f"{place}.params: Input should be a valid dictionary")
    for other in one:
        if other not in ("custom_id", "params"):
            yield Refusal("ANT-B01", f"{place}.{other}: Extra inputs are not permitted")


def create(request: Request, emulator: Emulator) -> Response:
    unread = checks.unread_complaints
    body, context = admitted(request, emulator, ERRORS, complaints, unread=unread)
    job = Job(
        id=f"msgbatch_01{context.reply_id}",
        account=context.account,
        request=request,
        created=emulator.clock(),
        window=batch_jobs.DAY,
        tasks=tuple(_task(one, context) for one in body["requests"]),
    )
    batch_jobs.keep(job, emulator, PROVIDER)
    return _shown(job, emulator, context, looked=False)


@rule("ANT-B03")
def _task(one: dict[str, Any], context: Context) -> Task:
    """What is wrong with the parameters is said in the results, not when the batch is created."""
    streamed = one["params"].get("stream") is True
    refusal = ERRORS.envelope(Refusal("ANT-B03", _STREAMED), context) if streamed else None
    return Task(one["custom_id"], "/v1/messages", one["params"], refusal)


@rule("ANT-B04")
def _shown(job: Job, emulator: Emulator, context: Context, *, looked: bool = True) -> Response:
    """Every request counts as processing until the whole batch has ended."""
    state = batch_jobs.advance(job, emulator) if looked else "running"
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if state == "running":
        counts["processing"] = len(job.tasks)
    else:
        for answer in job.answers:
            counts["succeeded" if answer.status == 200 else "errored"] += 1
        counts["canceled" if state == "cancelled" else "expired"] += len(job.tasks) - len(job.answers)
    archived = emulator.clock() >= job.created + KEPT
    address = f"{_address(job.request)}/v1/messages/batches/{job.id}/results"
    cancelling = job.cancelled != inf
    shown = {
        "id": job.id,
        "type": "message_batch",
        "processing_status": "ended" if state != "running" else "canceling" if cancelling else "in_progress",
        "request_counts": counts,
        "ended_at": _time(job.ended) if state != "running" else None,
        "created_at": _time(job.created),
        "expires_at": _time(job.created + job.window),
        "archived_at": _time(job.created + KEPT) if archived else None,
        "cancel_initiated_at": _time(job.cancelled) if cancelling else None,
        "results_url": address if state != "running" and not archived else None,
    }
    return json_response(shown, headers=ERRORS.headers(None, context))


def _address(request: Request) -> str:
    return f"http://{request.headers.get('host', 'localhost')}{request.target.partition('/v1/messages')[0]}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@rule("ANT-B05")
def _found(request: Request, emulator: Emulator) -> tuple[Job, Context]:
    """Batches of other accounts do not exist."""
    context = permitted(request, emulator, ERRORS)
    enforce(checks.unread_complaints(request, context), context)
    job = batch_jobs.find(request, emulator, PROVIDER)
    if job is None:
        text = f"Batch {request.params['id']} not found"
        raise RefusedError(Refusal("ANT-B05", text, status=404, type="not_found_error"), context)
    return job, context


def read(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    return _shown(job, emulator, context)


@rule("ANT-B05")
def list_batches(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    limit = request.query.get("limit", "20")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= 1000):
        text = "limit: Input should be a valid integer between 1 and 1000"
        raise RefusedError(Refusal("ANT-B05", text), context)
    jobs = batch_jobs.jobs_of(request, emulator, PROVIDER)
    names = [job.id for job in jobs]
    after, before = request.query.get("after_id"), request.query.get("before_id")
    if after in names:
        jobs = jobs[names.index(after) + 1 :]
    elif before in names:
        jobs = jobs[: names.index(before)]
    page = jobs[: int(limit)]
    shown = [msgspec.json.decode(_bytes(_shown(job, emulator, context))) for job in page]
    ids: list[str | None] = [*(job.id for job in page)] or [None]
    answer = {"data": shown, "has_more": len(page) < len(jobs), "first_id": ids[0], "last_id": ids[-1]}
    return json_response(answer, headers=ERRORS.headers(None, context))


def _bytes(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b""


@rule("ANT-B06")
def cancel(request: Request, emulator: Emulator) -> Response:
    """What is answered by then is kept; a batch that has ended stays as it is."""
    job, context = _found(request, emulator)
    if batch_jobs.advance(job, emulator) == "running":
        job.cancelled = emulator.clock()
        batch_jobs.advance(job, emulator)
        shown = msgspec.json.decode(_bytes(_shown(job, emulator, context)))
        # The cancellation itself takes a while.
        waiting = {
            "processing_status": "canceling",
            "ended_at": None,
            "results_url": None,
            "request_counts": {**dict.fromkeys(shown["request_counts"], 0), "processing": len(job.tasks)},
        }
        return json_response({**shown, **waiting}, headers=ERRORS.headers(None, context))
    return _shown(job, emulator, context)


@rule("ANT-B07")
def delete(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    if batch_jobs.advance(job, emulator) == "running":
        text = f"Batch {job.id} cannot be deleted while it is being processed. Cancel it first."
        raise RefusedError(Refusal("ANT-B07", text), context)
    batch_jobs.forget(job, emulator, PROVIDER)
    return json_response({"id": job.id, "type": "message_batch_deleted"})


@rule("ANT-B08")
def results(request: Request, emulator: Emulator) -> Response:
    """One line for each request, in any order."""
    job, context = _found(request, emulator)
    state = batch_jobs.advance(job, emulator)
    if state == "running" or emulator.clock() >= job.created + KEPT:
        text = f"Results of batch {job.id} are not available"
        raise RefusedError(Refusal("ANT-B08", text, status=404, type="not_found_error"), context)
    lines = [
        msgspec.json.encode(
            {"custom_id": job.tasks[place].name, "result": _result(place, job, state == "cancelled")}
        )
        for place in batch_jobs.in_other_order(job)
    ]
    headers = {"content-type": "application/x-jsonl", **ERRORS.headers(None, context)}
    return Response(headers=headers, body=b"\n".join(lines) + b"\n")


def _result(place: int, job: Job, cancelled: bool) -> dict[str, Any]:  # noqa: FBT001 - of one caller
    if place >= len(job.answers):
        return {"type": "canceled" if cancelled else "expired"}
    answer: Answered = job.answers[place]
    if answer.status != 200:
        return {"type": "errored", "error": answer.body}
    usage = {**answer.body.get("usage", {}), "service_tier": "batch"}
    return {"type": "succeeded", "message": {**answer.body, "usage": usage}}


ROUTES: list[Route] = [
    ("POST", "/v1/messages/batches", create),
    ("GET", "/v1/messages/batches", list_batches),
    ("GET", "/v1/messages/batches/{id}", read),
    ("DELETE", "/v1/messages/batches/{id}", delete),
    ("POST", "/v1/messages/batches/{id}/cancel", cancel),
    ("GET", "/v1/messages/batches/{id}/results", results),
]
