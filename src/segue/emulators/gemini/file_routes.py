"""Files of requests and of results.

`upload/v1beta/files` and `v1beta/files` of Gemini: resumable uploads, list, read, delete, download (GEM-F01 to GEM-F03).
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from segue.emulators import file_uploads
from segue.emulators.batch_jobs import DAY
from segue.emulators.file_uploads import StoredFile
from segue.emulators.gemini import errors
from segue.emulators.gemini.errors import ERRORS
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.request_checks import permitted
from segue.emulators.rules import Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
LARGEST = 2 << 30
LIFE = 2 * DAY
_UPLOADS = "uploads"
_GENERATED = "files/batch-"
"""How the names of files begin that a batch has written: only these can be downloaded."""


class _Upload(Struct):
    """One that has begun."""

    account: str
    told: dict[str, Any]
    content: bytearray


@rule("GEM-F01")
def upload(request: Request, emulator: Emulator) -> Response:
    """In two steps or more: the first names the file and gets an address, the others bring its bytes there, without a key."""
    uploads: dict[str, _Upload] = emulator.memory(PROVIDER).setdefault(_UPLOADS, {})
    if request.headers.get("x-goog-upload-command") == "start":
        return _started(request, emulator, uploads)
    name = request.query.get("upload_id", "")
    context = emulator.context(request, provider=PROVIDER, model="")
    if name not in uploads:
        raise RefusedError(_wrong("GEM-F01", "Upload has no such id.", 404), context)
    begun = uploads[name]
    if request.headers.get("x-goog-upload-offset") != str(len(begun.content)):
        raise RefusedError(_wrong("GEM-F01", "The upload offset is not what was received so far."), context)
    begun.content += request.body
    if len(begun.content) > LARGEST:
        raise RefusedError(_wrong("GEM-F01", "File is too large.", 413), context)
    if "finalize" not in request.headers.get("x-goog-upload-command", ""):
        return json_response({}, headers={"x-goog-upload-status": "active"})
    del uploads[name]
    stored = keep(f"files/{name[:12]}", begun.told, bytes(begun.content), begun.account, emulator)
    return json_response({"file": _shown(stored)}, headers={"x-goog-upload-status": "final"})


def _started(request: Request, emulator: Emulator, uploads: dict[str, _Upload]) -> Response:
    context = permitted(request, emulator, ERRORS)
    given = msgspec.json.decode(request.body or b"{}").get("file") or {}
    told = {
        "mimeType": request.headers.get("x-goog-upload-header-content-type")
        or given.get("mimeType")
        or given.get("mime_type"),
        "displayName": given.get("displayName") or given.get("display_name") or "",
    }
    if not told["mimeType"]:
        raise RefusedError(_wrong("GEM-F01", "Unable to determine the MIME type of the file."), context)
    name = emulator.new_id()
    uploads[name] = _Upload(context.account, told, bytearray())
    here = f"http://{request.headers.get('host', '')}{request.target.partition('?')[0]}"
    address = f"{here}?upload_id={name}&upload_protocol=resumable"
    return json_response({}, headers={"x-goog-upload-url": address, "x-goog-upload-status": "active"})


def keep(name: str, told: dict[str, Any], content: bytes, account: str, emulator: Emulator) -> StoredFile:
    stored = StoredFile(
        id=name,
        account=account,
        name=told["displayName"],
        purpose=told["mimeType"],
        content=content,
        created=int(emulator.clock()),
    )
    file_uploads.store(stored, emulator, PROVIDER)
    return stored


def written_by_batch(batch: str, content: bytes, account: str, emulator: Emulator) -> str:
    """The name of a file with the results of a batch."""
    name = f"{_GENERATED}{batch}"
    return keep(name, {"mimeType": "application/jsonl", "displayName": ""}, content, account, emulator).id


def held(name: str, request: Request, emulator: Emulator) -> StoredFile | None:
    """A file by its name. It is kept for two days."""
    file = file_uploads.find(name, request, emulator, PROVIDER)
    return file if file is not None and emulator.clock() < file.created + LIFE else None


def _shown(file: StoredFile) -> dict[str, Any]:
    generated = file.id.startswith(_GENERATED)
    shown = {
        "name": file.id,
        "mimeType": file.purpose,
        "sizeBytes": str(len(file.content)),
        "createTime": _time(file.created),
        "updateTime": _time(file.created),
        "expirationTime": _time(file.created + LIFE),
        "sha256Hash": b64encode(sha256(file.content).hexdigest().encode()).decode(),
        "uri": f"https://generativelanguage.googleapis.com/v1beta/{file.id}",
        "state": "ACTIVE",
        "source": "GENERATED" if generated else "UPLOADED",
    }
    if file.name:
        shown["displayName"] = file.name
    if generated:
        shown["downloadUri"] = f"{shown['uri']}:download?alt=media"
    return shown


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@rule("GEM-F02")
def _found(request: Request, emulator: Emulator) -> tuple[StoredFile, Context]:
    """Files of other accounts look like files that do not exist."""
    context = permitted(request, emulator, ERRORS)
    name = request.params["id"]
    file = held(f"files/{name}", request, emulator)
    if file is None:
        text = f"You do not have permission to access the File {name} or it may not exist."
        raise RefusedError(Refusal("GEM-F02", text, status=403, type="PERMISSION_DENIED"), context)
    return file, context


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_shown(_found(request, emulator)[0]))


@rule("GEM-F03")
def download(request: Request, emulator: Emulator) -> Response:
    file, context = _found(request, emulator)
    if not file.id.startswith(_GENERATED):
        raise RefusedError(_wrong("GEM-F03", "Only generated files can be downloaded."), context)
    return Response(headers={"content-type": file.purpose}, body=file.content)


def delete(request: Request, emulator: Emulator) -> Response:
    file_uploads.remove(_found(request, emulator)[0], emulator, PROVIDER)
    return json_response({})


def list_files(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    files = file_uploads.files_of(request, emulator, PROVIDER)
    size, start = int(request.query.get("pageSize") or 10), int(request.query.get("pageToken") or 0)
    answer: dict[str, Any] = {"files": [_shown(file) for file in files[start : start + size]]}
    if start + size < len(files):
        answer["nextPageToken"] = str(start + size)
    return json_response(answer)


def _wrong(number: str, text: str, status: int = 400) -> Refusal:
    return Refusal(number, text, status=status, type=errors.STATUSES.get(status, "INVALID_ARGUMENT"))


ROUTES: list[Route] = [
    route
    for version in ("v1beta", "v1")
    for route in (
        ("POST", f"/upload/{version}/files", upload),
        ("GET", f"/{version}/files", list_files),
        ("GET", f"/{version}/files/{{id}}:download", download),
        ("GET", f"/download/{version}/files/{{id}}:download", download),
        ("GET", f"/{version}/files/{{id}}", read),
        ("DELETE", f"/{version}/files/{{id}}", delete),
    )
]
