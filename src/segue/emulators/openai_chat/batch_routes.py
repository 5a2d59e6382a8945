"""Files, and batches of requests in them.

`/v1/files` and `/v1/batches` of OpenAI (OAI-B01 to OAI-B09).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators import batch_jobs, file_uploads
from segue.emulators.batch_jobs import DAY, Job, Task
from segue.emulators.file_uploads import StoredFile
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.openai_chat.errors import ERRORS
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.emulator import Emulator

PROVIDER = "openai"
MOST_REQUESTS = 50_000
LARGEST = 200 * 1024 * 1024
PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
ENDPOINTS = (
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/videos",
)
FIELDS = ("completion_window", "endpoint", "input_file_id", "metadata", "output_expires_after")
EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


@rule("OAI-B01")
def upload(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    form = file_uploads.form_of(request)
    if form is None:
        raise _refused("OAI-B01", "Invalid Content-Type header, expected multipart/form-data.", context)
    file, purpose = form.get("file"), form.get("purpose")
    if file is None or file.filename is None:
        raise _refused("OAI-B01", "'file' is a required property", context)
    if purpose is None:
        raise _refused("OAI-B01", "'purpose' is a required property", context)
    meant = purpose.value.decode("utf-8", "replace")
    if meant not in PURPOSES:
        raise _refused("OAI-B01", f"'{meant}' is not one of {list(PURPOSES)} - 'purpose'", context)
    if meant == "batch" and not file.filename.endswith(".jsonl"):
        raise _refused("OAI-B01", "Invalid file format for Batch API. Must be .jsonl", context)
    if meant == "batch" and len(file.value) > LARGEST:
        raise _refused("OAI-B01", "File is too large. Maximum size for batch is 200 MB", context)
    stored = _new_file(file.filename, meant, file.value, context, emulator)
    return json_response(_shown_file(stored), headers=ERRORS.headers(None, context))


def _refused(rule_id: str, text: str, context: Context, **more: Any) -> RefusedError:
    return RefusedError(Refusal(rule_id, text, **more), context)


def _new_file(name: str, purpose: str, content: bytes, context: Context, emulator: Emulator) -> StoredFile:
    stored = StoredFile(
        id=emulator.new_id("file-", 22),
        account=context.account,
        name=name,
        purpose=purpose,
        content=content,
        created=int(emulator.clock()),
    )
    file_uploads.store(stored, emulator, PROVIDER)
    return stored


def _shown_file(file: StoredFile) -> dict[str, Any]:
    return {
        "object": "file",
        "id": file.id,
        "purpose": file.purpose,
        "filename": file.name,
        "bytes": len(file.content),
        "created_at": file.created,
        "expires_at": None,
        "status": "processed",
        "status_details": None,
    }


@rule("OAI-B02")
def _file(request: Request, emulator: Emulator) -> tuple[StoredFile, Context]:
    """Files of other accounts do not exist."""
    context = permitted(request, emulator, ERRORS)
    found = file_uploads.find(request.params["id"], request, emulator, PROVIDER)
    if found is None:
        raise _refused(
            "OAI-B02", f"No such File object: {request.params['id']}", context, status=404, param="id"
        )
    return found, context


def show_file(request: Request, emulator: Emulator) -> Response:
    return json_response(_shown_file(_file(request, emulator)[0]))


def file_content(request: Request, emulator: Emulator) -> Response:
    file, context = _file(request, emulator)
    headers = {"content-type": "application/octet-stream", **ERRORS.headers(None, context)}
    return Response(headers=headers, body=file.content)


def delete_file(request: Request, emulator: Emulator) -> Response:
    file, _ = _file(request, emulator)
    file_uploads.remove(file, emulator, PROVIDER)
    return json_response({"object": "file", "id": file.id, "deleted": True})


def list_files(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    wanted = request.query.get("purpose")
    files = [
        _shown_file(file)
        for file in file_uploads.files_of(request, emulator, PROVIDER)
        if wanted in (None, file.purpose)
    ]
    return json_response(_page(files, request, most=10_000))


def _page(items: list[dict[str, Any]], request: Request, *, most: int) -> dict[str, Any]:
    names = [item["id"] for item in items]
    after, limit = request.query.get("after"), request.query.get("limit", "20")
    if after in names:
        items = items[names.index(after) + 1 :]
    page = items[: min(int(limit) if limit.isascii() and limit.isdigit() else 20, most)]
    ids = [item["id"] for item in page] or [None]
    return {
        "object": "list",
        "data": page,
        "first_id": ids[0],
        "last_id": ids[-1],
        "has_more": len(page) < len(items),
    }


@rule("OAI-B03")
def complaints(body: object, context: Context) -> Complaints:  # noqa: ARG001 - a check
    if not isinstance(body, dict):
        yield Refusal("OAI-B03", "Invalid type for request body: expected an object.")
        return
    for name in body:
        if name not in FIELDS:
            text = f"Unknown parameter: '{name}'."
            yield Refusal("OAI-B03", text, code="unknown_parameter", param=name)
    for name in ("input_file_id", "endpoint", "completion_window"):
        if name not in body:
            text = f"Missing required parameter: '{name}'."
            yield Refusal("OAI-B03", text, code="missing_required_parameter", param=name)
    for name, allowed in (("endpoint", ENDPOINTS), ("completion_window", ("24h",))):
        if name in body and body[name] not in allowed:
            words = ", ".join(f"'{word}'" for word in allowed)
            text = f"Invalid value: '{body[name]}'. Supported values are: {words}."
            yield Refusal("OAI-B03", text, code="invalid_value", param=name)
    yield from _metadata(body.get("metadata"))


@rule("OAI-B03")
def _metadata(metadata: object) -> Complaints:
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        text = "Invalid type for 'metadata': expected an object."
        yield Refusal("OAI-B03", text, code="invalid_type", param="metadata")
        return
    if len(metadata) > 16:
        text = f"Invalid 'metadata': too many properties. Expected at most 16, got {len(metadata)}."
        yield Refusal("OAI-B03", text, code="object_above_max_properties", param="metadata")
    for name, value in metadata.items():
        if not isinstance(value, str) or len(value) > 512 or len(name) > 64:
            text = f"Invalid 'metadata.{name}': string too long or no string."
            yield Refusal("OAI-B03", text, code="invalid_value", param=f"metadata.{name}")


def create(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, complaints)
    job = Job(
        id=f"batch_{context.reply_id}",
        account=context.account,
        request=request,
        created=emulator.clock(),
        window=DAY,
        record={"asked": body, "errors": None, "output": None, "error": None, "validated": False},
    )
    batch_jobs.keep(job, emulator, PROVIDER)
    return json_response(_shown(job, "validating"), headers=ERRORS.headers(None, context))


def _validate(job: Job, emulator: Emulator) -> None:
    """What is wrong with the file is found after the batch was created, all of it, and then nothing of it is done."""
    if job.record["validated"]:
        return
    job.record["validated"] = True
    file = file_uploads.find(job.record["asked"]["input_file_id"], job.request, emulator, PROVIDER)
    tasks: list[Task] = []
    problems = list(_read(file, job.record["asked"]["endpoint"], tasks))
    if problems:
        job.record["errors"] = {"object": "list", "data": problems[:100]}
        job.ended = emulator.clock()
    else:
        job.tasks = tuple(tasks)


@rule("OAI-B04")
def _read(file: StoredFile | None, endpoint: str, tasks: list[Task]) -> Iterator[dict[str, Any]]:
    if file is None or file.purpose != "batch":
        yield _problem("invalid_file", "The input file cannot be read, or its purpose is not batch.", None)
        return
    lines = file.content.removesuffix(b"\n").split(b"\n")
    if not file.content.strip():
        yield _problem("empty_file", "The input file is empty.", None)
        return
    if len(lines) > MOST_REQUESTS:
        text = f"The batch has more than {MOST_REQUESTS} requests."
        yield _problem("too_many_tasks", text, None)
        return
    seen, model = set[str](), None
    for number, line in enumerate(lines, 1):
        try:
            read = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            read = None
        if not isinstance(read, dict):
            yield _problem("invalid_json_line", "This line is not parseable as valid JSON.", number)
            continue
        yield from _line(read, endpoint, number)
        name, body = read.get("custom_id"), read.get("body")
        if not isinstance(name, str) or not isinstance(body, dict):
            continue
        if name in seen:
            text = f"The custom_id '{name}' is used by another request of the batch."
            yield _problem("duplicate_custom_id", text, number, "custom_id")
        seen.add(name)
        if model is not None and body.get("model") != model:
            text = f"All requests of a batch must have the same model: '{model}'."
            yield _problem("model_mismatch", text, number, "body.model")
        model = model or body.get("model")
        tasks.append(Task(name, endpoint, body, _not_streamed(body)))


def _line(read: dict[str, Any], endpoint: str, number: int) -> Iterator[dict[str, Any]]:
    for name, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
        if not isinstance(read.get(name), kind):
            text = f"Missing required parameter: '{name}'."
            yield _problem("missing_required_parameter", text, number, name)
    if read.get("method", "POST") != "POST":
        yield _problem("invalid_method", "The method must be POST.", number, "method")
    if isinstance(read.get("url"), str) and read["url"] != endpoint:
        text = f"The url '{read['url']}' is not the endpoint of the batch, '{endpoint}'."
        yield _problem("url_mismatch", text, number, "url")


@rule("OAI-B05")
def _not_streamed(body: dict[str, Any]) -> dict[str, Any] | None:
    if body.get("stream") is not True:
        return None
    text = "Streaming is not supported in the Batch API."
    return {
        "error": {
            "message": text,
            "type": "invalid_request_error",
            "param": "stream",
            "code": "unsupported_value",
        }
    }


def _problem(code: str, text: str, line: int | None, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": text, "param": param}


def _look(job: Job, emulator: Emulator, context: Context) -> str:
    """The status by now; with the last answer its files are written."""
    _validate(job, emulator)
    if job.record["errors"] is not None:
        return "failed"
    state = batch_jobs.advance(job, emulator)
    if state == "running":
        return "cancelling" if job.cancelled != inf else "in_progress"
    if job.record["output"] is None and job.record["error"] is None:
        _write_files(job, state, context, emulator)
    return {"done": "completed"}.get(state, state)


@rule("OAI-B06")
def _write_files(job: Job, state: str, context: Context, emulator: Emulator) -> None:
    """What succeeded is in one file, what failed or expired in another; what was cancelled is in neither."""
    good, bad = list[bytes](), list[bytes]()
    for place in batch_jobs.in_other_order(job):
        answer = job.answers[place] if place < len(job.answers) else None
        if answer is None and state == "cancelled":
            continue
        response = answer and {
            "status_code": answer.status,
            "request_id": emulator.new_id("req_"),
            "body": answer.body,
        }
        line = msgspec.json.encode(
            {
                "id": emulator.new_id("batch_req_"),
                "custom_id": job.tasks[place].name,
                "response": response,
                "error": EXPIRED if answer is None else None,
            }
        )
        (good if answer is not None and answer.status == 200 else bad).append(line)
    for kind, lines in (("output", good), ("error", bad)):
        if lines:
            content = b"\n".join(lines) + b"\n"
            file = _new_file(f"{job.id}_{kind}.jsonl", "batch_output", content, context, emulator)
            job.record[kind] = file.id


def _shown(job: Job, status: str) -> dict[str, Any]:
    asked, ended = job.record["asked"], None if job.ended == inf else int(job.ended)
    created, began = int(job.created), None if status in ("validating", "failed") else int(job.created)
    good = sum(answer.status == 200 for answer in job.answers)
    failed = len(job.answers) - good + (len(job.tasks) - len(job.answers) if status == "expired" else 0)
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": asked["endpoint"],
        "model": next((task.body.get("model") for task in job.tasks), None),
        "errors": job.record["errors"],
        "input_file_id": asked["input_file_id"],
        "completion_window": asked["completion_window"],
        "status": status,
        "output_file_id": job.record["output"],
        "error_file_id": job.record["error"],
        "created_at": created,
        "in_progress_at": began,
        "expires_at": created + int(job.window),
        "finalizing_at": ended if status == "completed" else None,
        "completed_at": ended if status == "completed" else None,
        "failed_at": ended if status == "failed" else None,
        "expired_at": ended if status == "expired" else None,
        "cancelling_at": None if job.cancelled == inf else int(job.cancelled),
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": {"total": len(job.tasks), "completed": good, "failed": failed},
        "metadata": asked.get("metadata"),
    }


@rule("OAI-B07")
def _found(request: Request, emulator: Emulator) -> tuple[Job, Context]:
    context = permitted(request, emulator, ERRORS)
    job = batch_jobs.find(request, emulator, PROVIDER)
    if job is None:
        text = f"No batch found with id '{request.params['id']}'."
        raise _refused("OAI-B07", text, context, status=404, param="batch_id")
    return job, context


def read(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    return json_response(_shown(job, _look(job, emulator, context)), headers=ERRORS.headers(None, context))


@rule("OAI-B08")
def cancel(request: Request, emulator: Emulator) -> Response:
    job, context = _found(request, emulator)
    status = _look(job, emulator, context)
    if status not in ("validating", "in_progress", "cancelling"):
        raise _refused("OAI-B08", f"Cannot cancel a batch with status '{status}'.", context, status=409)
    job.cancelled = min(job.cancelled, emulator.clock())
    return json_response(_shown(job, "cancelling"), headers=ERRORS.headers(None, context))


def list_batches(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    jobs = batch_jobs.jobs_of(request, emulator, PROVIDER)
    return json_response(
        _page([_shown(job, _look(job, emulator, context)) for job in jobs], request, most=100)
    )


ROUTES: list[Route] = [
    ("POST", "/v1/files", upload),
    ("GET", "/v1/files", list_files),
    ("GET", "/v1/files/{id}", show_file),
    ("DELETE", "/v1/files/{id}", delete_file),
    ("GET", "/v1/files/{id}/content", file_content),
    ("POST", "/v1/batches", create),
    ("GET", "/v1/batches", list_batches),
    ("GET", "/v1/batches/{id}", read),
    ("POST", "/v1/batches/{id}/cancel", cancel),
]
