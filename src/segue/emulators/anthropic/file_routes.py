"""Files that messages refer to.

`/v1/files` of Anthropic: upload, list, read, delete (ANT-F01, ANT-F02).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any

from segue.emulators import file_uploads
from segue.emulators.anthropic import checks
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.file_uploads import StoredFile
from segue.emulators.http import Request, Response, Route, json_response
from segue.emulators.request_checks import permitted
from segue.emulators.rules import Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

PROVIDER = "anthropic"
LARGEST = 500 * 1024 * 1024
_FORBIDDEN = re.compile(r'[<>:"|?*\\/\x00-\x1f]')


def _admitted(request: Request, emulator: Emulator) -> Context:
    """The beta that older clients name is not needed any more, and does no harm."""
    context = permitted(request, emulator, ERRORS)
    enforce(checks.unread_complaints(request, context), context)
    return context


@rule("ANT-F01")
def upload(request: Request, emulator: Emulator) -> Response:
    context = _admitted(request, emulator)
    file = (file_uploads.form_of(request) or {}).get("file")
    if file is None or file.filename is None:
        raise RefusedError(Refusal("ANT-F01", "file: Field required"), context)
    if not 1 <= len(file.filename) <= 255 or _FORBIDDEN.search(file.filename):
        raise RefusedError(Refusal("ANT-F01", "Invalid filename"), context)
    if len(file.value) > LARGEST:
        refusal = Refusal("ANT-F01", "File too large", status=413, type="request_too_large")
        raise RefusedError(refusal, context)
    stored = StoredFile(
        id=emulator.new_id("file_011"),
        account=context.account,
        name=file.filename,
        purpose=guess_type(file.filename)[0] or "application/octet-stream",
        content=file.value,
        created=int(emulator.clock()),
    )
    file_uploads.store(stored, emulator, PROVIDER)
    return json_response(_shown(stored), headers=ERRORS.headers(None, context))


def _shown(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "type": "file",
        "filename": file.name,
        "mime_type": file.purpose,
        "size_bytes": len(file.content),
        "created_at": datetime.fromtimestamp(file.created, UTC).isoformat().replace("+00:00", "Z"),
        "downloadable": False,
    }


@rule("ANT-F02")
def _found(request: Request, emulator: Emulator) -> tuple[StoredFile, Context]:
    """Files of other accounts do not exist."""
    context = _admitted(request, emulator)
    file = file_uploads.find(request.params["id"], request, emulator, PROVIDER)
    if file is None:
        text = f"File not found: {request.params['id']}"
        raise RefusedError(Refusal("ANT-F02", text, status=404, type="not_found_error"), context)
    return file, context


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_shown(_found(request, emulator)[0]))


@rule("ANT-F02")
def content(request: Request, emulator: Emulator) -> Response:
    """Only what the provider's own tools made can be downloaded, and the emulator has none."""
    file, context = _found(request, emulator)
    raise RefusedError(Refusal("ANT-F02", f"File {file.id} is not downloadable."), context)


def delete(request: Request, emulator: Emulator) -> Response:
    file, _ = _found(request, emulator)
    file_uploads.remove(file, emulator, PROVIDER)
    return json_response({"id": file.id, "type": "file_deleted"})


def list_files(request: Request, emulator: Emulator) -> Response:
    _admitted(request, emulator)
    files = file_uploads.files_of(request, emulator, PROVIDER)
    ids: list[str | None] = [*(file.id for file in files)] or [None]
    shown = [_shown(file) for file in files]
    return json_response({"data": shown, "has_more": False, "first_id": ids[0], "last_id": ids[-1]})


ROUTES: list[Route] = [
    ("POST", "/v1/files", upload),
    ("GET", "/v1/files", list_files),
    ("GET", "/v1/files/{id}", read),
    ("DELETE", "/v1/files/{id}", delete),
    ("GET", "/v1/files/{id}/content", content),
]
