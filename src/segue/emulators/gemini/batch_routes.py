"""Batches of requests.

`models/{model}:batchGenerateContent` and `batches` of Gemini, with the requests in the body or in a file (GEM-B01 to GEM-B07).
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators import batch_jobs
from segue.emulators.batch_jobs import DAY, Job, Task
from segue.emulators.gemini import checks, file_routes
from segue.emulators.gemini.contents import refused
from segue.emulators.gemini.errors import ERRORS
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
WINDOW = 2 * DAY
LARGEST = 20 * 1024 * 1024
_FIELDS = {
    "": ("batch",),
    "batch": ("displayName", "inputConfig", "priority", "model", "webhookConfig"),
    "batch.input_config": ("requests", "fileName"),
    "batch.input_config.requests": ("requests",),
}
_ENTRY = ("request", "metadata")
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 429: 8, 500: 13, 503: 14, 504: 4}
"""Of google.rpc.Status, in which errors stand inside of an answer."""
_STATES = {"running": "RUNNING", "done": "SUCCEEDED", "expired": "EXPIRED", "cancelled": "CANCELLED"}


@rule("GEM-B01")
def complaints(body: object, context: Context) -> Complaints:
    yield from _unknown_names(body)
    yield from checks.unknown_model(context, "generateContent")
    batch = body.get("batch") if isinstance(body, dict) else None
    given = batch if isinstance(batch, dict) else {}
    config = given.get("inputConfig")
    if not isinstance(config, dict) or not config:
        yield refused("GEM-B01", "* BatchGenerateContentRequest.batch.input_config: input_config is required")
        return
    if not _requests(body) and "fileName" not in config:
        place = "BatchGenerateContentRequest.batch.input_config.requests.requests"
        yield refused("GEM-B01", f"* {place}: requests is not specified")


def _unknown_names(body: object) -> Complaints:
    """All names that the API does not have, as one refusal (GEM-11)."""
    found = list[str]()
    at: Any = body
    for place, known in _FIELDS.items():
        step = {"batch": "batch", "batch.input_config": "inputConfig"}.get(place, "requests" if place else "")
        at = (at.get(step) if isinstance(at, dict) else None) if step else body
        for name in at if isinstance(at, dict) else ():
            if name not in known:
                found.append(_unknown(name, place))
    for index, one in enumerate(_requests(body)):
        where = f"batch.input_config.requests.requests[{index}]"
        found += [
            _unknown(name, where) for name in (one if isinstance(one, dict) else ()) if name not in _ENTRY
        ]
    if found:
        yield refused("GEM-B01", "\n".join(found))


def _unknown(name: str, place: str) -> str:
    where = f" at '{place}'" if place else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'


def _requests(body: Any) -> list[Any]:
    for name in ("batch", "inputConfig", "requests", "requests"):
        body = body.get(name) if isinstance(body, dict) else None
    return body if isinstance(body, list) else []


@rule("GEM-B02")
def create(request: Request, emulator: Emulator) -> Response:
    if len(request.body) > LARGEST:
        context = permitted(request, emulator, ERRORS)
        text = f"Request payload size exceeds the limit: {LARGEST} bytes."
        raise RefusedError(refused("GEM-B02", text), context)
    body, context = admitted(request, emulator, ERRORS, complaints)
    version = request.path.split("/")[1]
    config, problem = body["batch"]["inputConfig"], ""
    if "fileName" in config:
        entries, problem = _lines_of(config["fileName"], request, emulator, context)
    else:
        entries = _requests(body)
    tasks = [
        Task(str(place), f"/{version}/models/{context.model}:generateContent", _request(one))
        for place, one in enumerate(entries)
    ]
    job = Job(
        id=context.reply_id,
        account=context.account,
        request=request,
        created=emulator.clock(),
        window=WINDOW,
        tasks=tuple(tasks),
        record={
            "model": f"models/{context.model}",
            "name": body["batch"].get("displayName", ""),
            "metadata": [one.get("metadata") for one in entries],
            "keys": [one.get("key") for one in entries] if "fileName" in config else None,
            "problem": problem,
        },
    )
    batch_jobs.keep(job, emulator, PROVIDER)
    return json_response(_shown(job, emulator, looked=False), headers=ERRORS.headers(None, context))


@rule("GEM-B07")
def _lines_of(
    name: str, request: Request, emulator: Emulator, context: Context
) -> tuple[list[dict[str, Any]], str]:
    """The requests in a file, and what is wrong with it: then the batch fails as a whole."""
    file = file_routes.held(name, request, emulator)
    if file is None:
        text = f"File {name} not found"
        raise RefusedError(Refusal("GEM-B07", text, status=404, type="NOT_FOUND"), context)
    entries = list[dict[str, Any]]()
    for number, line in enumerate(file.content.splitlines(), 1):
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("request"), dict):
            return [], f"Line {number} of the input file is not a request with a key."
        entries.append(entry)
    return entries, "" if entries else "The input file has no requests."


def _request(one: dict[str, Any]) -> dict[str, Any]:
    given = one.get("request")
    fields = given if isinstance(given, dict) else {}
    return {name: value for name, value in fields.items() if name != "model"}


@rule("GEM-B03")
@rule("GEM-B04")
def _shown(job: Job, emulator: Emulator, *, looked: bool = True) -> dict[str, Any]:
    """An operation. A batch that expired or was cancelled has no results, not even those that were made."""
    state = batch_jobs.advance(job, emulator) if looked else "running"
    problem = job.record["problem"] if looked else ""
    good = sum(answer.status == 200 for answer in job.answers)
    stats = {
        "requestCount": len(job.tasks),
        "successfulRequestCount": good,
        "failedRequestCount": len(job.answers) - good,
        "pendingRequestCount": len(job.tasks) - len(job.answers),
    }
    metadata: dict[str, Any] = {
        "@type": TYPE,
        "model": job.record["model"],
        "displayName": job.record["name"],
        "createTime": _time(job.created),
        "updateTime": _time(emulator.clock()),
        "batchStats": {name: str(count) for name, count in stats.items() if count},
        "state": f"BATCH_STATE_{'FAILED' if problem else _STATES[state] if looked else 'PENDING'}",
        "name": f"batches/{job.id}",
    }
    shown: dict[str, Any] = {"name": f"batches/{job.id}", "metadata": metadata}
    if state == "running":
        return shown
    metadata["endTime"] = _time(job.ended)
    shown["done"] = True
    if problem:
        shown["error"] = {"code": 3, "message": problem}
    elif state == "done":
        output = _output(job, emulator)
        metadata["output"] = output
        shown["response"] = {"@type": f"{TYPE}Output", **output}
    else:
        code, text = (1, "cancelled") if state == "cancelled" else (4, "expired")
        shown["error"] = {
            "code": code,
            "message": f"The batch was {text}." if code == 1 else "The batch expired.",
        }
    return shown


def _output(job: Job, emulator: Emulator) -> dict[str, Any]:
    """Responses are where the requests were: in the body, or in a file, there in no order."""
    if job.record["keys"] is None:
        responses = [_response(job, place) for place in range(len(job.tasks))]
        return {"inlinedResponses": {"inlinedResponses": responses}}
    if "responses" not in job.record:
        lines = [msgspec.json.encode(_response(job, place)) for place in batch_jobs.in_other_order(job)]
        content = b"".join(line + b"\n" for line in lines)
        job.record["responses"] = file_routes.written_by_batch(job.id, content, job.account, emulator)
    return {"responsesFile": job.record["responses"]}


def _response(job: Job, place: int) -> dict[str, Any]:
    answer, metadata, keys = job.answers[place], job.record["metadata"][place], job.record["keys"]
    told = {} if metadata is None else {"metadata": metadata}
    if keys is not None and keys[place] is not None:
        told["key"] = keys[place]
    if answer.status == 200:
        return {"response": answer.body, **told}
    error = answer.body.get("error", {})
    return {"error": {"code": _CODES.get(answer.status, 2), "message": error.get("message")}, **told}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@rule("GEM-B05")
def _found(request: Request, emulator: Emulator) -> tuple[Job, Context]:
    context = permitted(request, emulator, ERRORS)
    job = batch_jobs.find(request, emulator, PROVIDER)
    if job is None:
        text = "Requested entity was not found."
        raise RefusedError(Refusal("GEM-B05", text, status=404, type="NOT_FOUND"), context)
    return job, context


def read(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    return json_response(_shown(job, emulator), headers=ERRORS.headers(None, context))


@rule("GEM-B06")
def cancel(request: Request, emulator: Emulator) -> Response:
    job, _ = _found(request, emulator)
    if batch_jobs.advance(job, emulator) == "running" and job.cancelled == inf:
        job.cancelled = emulator.clock()
    return json_response({})


def delete(request: Request, emulator: Emulator) -> Response:
    job, _ = _found(request, emulator)
    batch_jobs.forget(job, emulator, PROVIDER)
    return json_response({})


def list_batches(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    jobs = batch_jobs.jobs_of(request, emulator, PROVIDER)
    size, start = int(request.query.get("pageSize") or 50), int(request.query.get("pageToken") or 0)
    answer: dict[str, Any] = {"operations": [_shown(job, emulator) for job in jobs[start : start + size]]}
    if start + size < len(jobs):
        answer["nextPageToken"] = str(start + size)
    return json_response(answer)


ROUTES: list[Route] = [
    route
    for version in ("v1beta", "v1")
    for route in (
        ("POST", f"/{version}/models/{{model}}:batchGenerateContent", create),
        ("GET", f"/{version}/batches", list_batches),
        ("GET", f"/{version}/batches/{{id}}", read),
        ("DELETE", f"/{version}/batches/{{id}}", delete),
        ("POST", f"/{version}/batches/{{id}}:cancel", cancel),
    )
]
