"""Files, and batches of requests in them.

`/v1/files` and `/v1/batch/jobs` of Mistral (MIS-B01 to MIS-B06).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import msgspec

from segue.emulators import batch_jobs, file_uploads
from segue.emulators.batch_jobs import Job, Task
from segue.emulators.file_uploads import StoredFile
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.mistral.errors import ERRORS, SchemaRefusal
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "mistral"
_NAMESPACE = UUID(int=0)
PURPOSES = ("fine-tune", "batch", "ocr", "audio")
ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/fim/completions",
    "/v1/moderations",
    "/v1/chat/moderations",
    "/v1/ocr",
    "/v1/classifications",
    "/v1/chat/classifications",
    "/v1/conversations",
    "/v1/audio/transcriptions",
)
FIELDS = ("input_files", "requests", "endpoint", "model", "agent_id", "metadata", "timeout_hours")
MOST_HOURS = 168
MOST_INLINE = 10_000
_STATUS = {"running": "RUNNING", "done": "SUCCESS", "expired": "TIMEOUT_EXCEEDED", "cancelled": "CANCELLED"}


def _wrong(rule_id: str, text: str, *location: str, code: str = "value_error") -> SchemaRefusal:
    return SchemaRefusal(rule=rule_id, message=text, code=code, location=location)


@rule("MIS-B01")
def upload(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    form = file_uploads.form_of(request) or {}
    file, purpose = form.get("file"), form.get("purpose")
    if file is None or file.filename is None:
        raise RefusedError(_wrong("MIS-B01", "Field required", "file", code="missing"), context)
    meant = purpose.value.decode("utf-8", "replace") if purpose is not None else "fine-tune"
    if meant not in PURPOSES:
        text = "Input should be " + ", ".join(f"'{word}'" for word in PURPOSES)
        raise RefusedError(_wrong("MIS-B01", text, "purpose", code="enum"), context)
    if meant == "batch" and (bad := _bad_line(file.value)):
        text = f"Invalid file format: line {bad} is not a JSON object with a body"
        raise RefusedError(Refusal("MIS-B01", text, status=422, type="invalid_file"), context)
    stored = _new_file(file.filename, meant, file.value, context, emulator)
    return json_response(_shown_file(stored), headers=ERRORS.headers(None, context))


def _bad_line(content: bytes) -> int:
    for number, line in enumerate(content.splitlines(), 1):
        try:
            read = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return number
        if not isinstance(read, dict) or not isinstance(read.get("body"), dict):
            return number
    return 0 if content.strip() else 1


def _new_file(name: str, purpose: str, content: bytes, context: Context, emulator: Emulator) -> StoredFile:
    stored = StoredFile(
        id=str(uuid5(_NAMESPACE, emulator.new_id())),
        account=context.account,
        name=name,
        purpose=purpose,
        content=content,
        created=int(emulator.clock()),
    )
    file_uploads.store(stored, emulator, PROVIDER)
    return stored


def _shown_file(file: StoredFile) -> dict[str, Any]:
    made = file.purpose == "batch_result"
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.content),
        "created_at": file.created,
        "filename": file.name,
        "purpose": "batch" if made else file.purpose,
        "sample_type": "batch_result" if made else "batch_request",
        "num_lines": file.content.count(b"\n"),
        "mimetype": "application/jsonl",
        "source": "mistral" if made else "upload",
        "signature": None,
    }


@rule("MIS-B02")
def _file(request: Request, emulator: Emulator) -> tuple[StoredFile, Context]:
    context = permitted(request, emulator, ERRORS)
    found = file_uploads.find(request.params["id"], request, emulator, PROVIDER)
    if found is None:
        raise RefusedError(Refusal("MIS-B02", "File not found", status=404, type="not_found"), context)
    return found, context


def show_file(request: Request, emulator: Emulator) -> Response:
    return json_response({**_shown_file(_file(request, emulator)[0]), "deleted": False})


def file_content(request: Request, emulator: Emulator) -> Response:
    file, context = _file(request, emulator)
    headers = {"content-type": "application/octet-stream", **ERRORS.headers(None, context)}
    return Response(headers=headers, body=file.content)


def delete_file(request: Request, emulator: Emulator) -> Response:
    file, _ = _file(request, emulator)
    file_uploads.remove(file, emulator, PROVIDER)
    return json_response({"id": file.id, "object": "file", "deleted": True})


def list_files(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    files = file_uploads.files_of(request, emulator, PROVIDER)
    page = _page([_shown_file(file) for file in files], request)
    return json_response({"data": page, "object": "list", "total": len(files)})


def _page(items: list[dict[str, Any]], request: Request) -> list[dict[str, Any]]:
    size = int(request.query.get("page_size", "100"))
    start = int(request.query.get("page", "0")) * size
    return items[start : start + size]


@rule("MIS-B03")
def complaints(body: object, context: Context) -> Complaints:  # noqa: ARG001 - a check
    if not isinstance(body, dict):
        yield _wrong("MIS-B03", "Input should be a valid dictionary", code="dict_type")
        return
    for name in body:
        if name not in FIELDS:
            yield _wrong("MIS-B03", "Extra inputs are not permitted", name, code="extra_forbidden")
    if "endpoint" not in body:
        yield _wrong("MIS-B03", "Field required", "endpoint", code="missing")
    elif body["endpoint"] not in ENDPOINTS:
        text = "Input should be " + ", ".join(f"'{word}'" for word in ENDPOINTS)
        yield _wrong("MIS-B03", text, "endpoint", code="enum")
    files, requests = body.get("input_files"), body.get("requests")
    if bool(files) == bool(requests):
        yield _wrong("MIS-B03", "Value error, give either input_files or requests")
    if requests and len(requests) > MOST_INLINE:
        yield _wrong("MIS-B03", f"List should have at most {MOST_INLINE} items", "requests", code="too_long")
    hours = body.get("timeout_hours", 24)
    if not isinstance(hours, int) or not 1 <= hours <= MOST_HOURS:
        yield _wrong("MIS-B03", f"Input should be between 1 and {MOST_HOURS}", "timeout_hours")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        yield _wrong("MIS-B03", "Input should be a valid string", "metadata", code="string_type")


def create(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, complaints)
    lines = list(body.get("requests") or ())
    for name in body.get("input_files") or ():
        file = file_uploads.find(name, request, emulator, PROVIDER)
        if file is None or file.purpose != "batch":
            refusal = Refusal("MIS-B02", f"File {name} not found", status=404, type="not_found")
            raise RefusedError(refusal, context)
        lines += [msgspec.json.decode(line) for line in file.content.splitlines()]
    job = Job(
        id=str(uuid5(_NAMESPACE, emulator.new_id())),
        account=context.account,
        request=request,
        created=emulator.clock(),
        window=3600.0 * body.get("timeout_hours", 24),
        tasks=tuple(_task(line, place, body) for place, line in enumerate(lines)),
        record={"asked": body, "output": None, "error": None},
    )
    batch_jobs.keep(job, emulator, PROVIDER)
    return json_response(_shown(job, "QUEUED"), headers=ERRORS.headers(None, context))


@rule("MIS-B04")
def _task(line: dict[str, Any], place: int, asked: dict[str, Any]) -> Task:
    """The model of the batch counts where a request names none."""
    model = {"model": asked["model"]} if asked.get("model") else {}
    body = {**model, **line["body"]}
    streamed = {"detail": "Streaming is not supported in batches"} if body.get("stream") is True else None
    return Task(str(line.get("custom_id") or place), asked["endpoint"], body, streamed)


def _look(job: Job, emulator: Emulator, context: Context) -> str:
    state = batch_jobs.advance(job, emulator)
    if state == "running":
        return "CANCELLATION_REQUESTED" if job.cancelled != inf else "RUNNING"
    if job.record["output"] is None and job.record["error"] is None:
        _write_files(job, context, emulator)
    return _STATUS[state]


@rule("MIS-B05")
def _write_files(job: Job, context: Context, emulator: Emulator) -> None:
    """What failed is in a file of its own; what expired or was cancelled is in none."""
    kinds: dict[str, list[bytes]] = {"output": [], "error": []}
    for place in batch_jobs.in_other_order(job):
        if place >= len(job.answers):
            continue
        answer, good = job.answers[place], job.answers[place].status == 200
        line = {
            "id": f"batch-{job.id[:8]}-{place}",
            "custom_id": job.tasks[place].name,
            "response": {
                "status_code": answer.status,
                "body": answer.body if good else msgspec.json.encode(answer.body).decode(),
            },
            "error": None if good else answer.body,
        }
        kinds["output" if good else "error"].append(msgspec.json.encode(line))
    for kind, lines in kinds.items():
        if lines:
            content = b"\n".join(lines) + b"\n"
            job.record[kind] = _new_file(
                f"{job.id}_{kind}.jsonl", "batch_result", content, context, emulator
            ).id


def _shown(job: Job, status: str) -> dict[str, Any]:
    asked, good = job.record["asked"], sum(answer.status == 200 for answer in job.answers)
    failed = [answer for answer in job.answers if answer.status != 200]
    counted: dict[str, int] = {}
    for answer in failed:
        text = msgspec.json.encode(answer.body).decode()[:200]
        counted[text] = counted.get(text, 0) + 1
    return {
        "id": job.id,
        "object": "batch",
        "input_files": asked.get("input_files") or [],
        "metadata": asked.get("metadata"),
        "endpoint": asked["endpoint"],
        "model": asked.get("model"),
        "agent_id": asked.get("agent_id"),
        "output_file": job.record["output"],
        "error_file": job.record["error"],
        "outputs": None,
        "errors": [{"message": text, "count": count} for text, count in counted.items()],
        "status": status,
        "created_at": int(job.created),
        "total_requests": len(job.tasks),
        "completed_requests": len(job.answers),
        "succeeded_requests": good,
        "failed_requests": len(failed),
        "started_at": None if status == "QUEUED" else int(job.created),
        "completed_at": None if job.ended == inf else int(job.ended),
    }


@rule("MIS-B06")
def _found(request: Request, emulator: Emulator) -> tuple[Job, Context]:
    context = permitted(request, emulator, ERRORS)
    job = batch_jobs.find(request, emulator, PROVIDER)
    if job is None:
        raise RefusedError(Refusal("MIS-B06", "Job not found", status=404, type="not_found"), context)
    return job, context


def read(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    return json_response(_shown(job, _look(job, emulator, context)), headers=ERRORS.headers(None, context))


@rule("MIS-B06")
def cancel(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    status = _look(job, emulator, context)
    if status == "RUNNING":
        job.cancelled, status = emulator.clock(), "CANCELLATION_REQUESTED"
    return json_response(_shown(job, status), headers=ERRORS.headers(None, context))


def delete(request: Request, emulator: Emulator) -> Response:
    job, _ = _found(request, emulator)
    batch_jobs.forget(job, emulator, PROVIDER)
    return json_response({"id": job.id, "object": "batch", "deleted": True})


def list_jobs(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    jobs = batch_jobs.jobs_of(request, emulator, PROVIDER)
    page = _page([_shown(job, _look(job, emulator, context)) for job in jobs], request)
    return json_response({"data": page, "object": "list", "total": len(jobs)})


ROUTES: list[Route] = [
    ("POST", "/v1/files", upload),
    ("GET", "/v1/files", list_files),
    ("GET", "/v1/files/{id}", show_file),
    ("DELETE", "/v1/files/{id}", delete_file),
    ("GET", "/v1/files/{id}/content", file_content),
    ("POST", "/v1/batch/jobs", create),
    ("GET", "/v1/batch/jobs", list_jobs),
    ("GET", "/v1/batch/jobs/{id}", read),
    ("DELETE", "/v1/batch/jobs/{id}", delete),
    ("POST", "/v1/batch/jobs/{id}/cancel", cancel),
]
