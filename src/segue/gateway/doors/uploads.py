"""Files that clients of Gemini bring in pieces: the first request describes the file and gets an address, the others bring its bytes there.

The address is one of ours. It holds a secret instead of the client's key, as Gemini's own does: clients send no key there. The key
that began the upload must still be good.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.errors import InvalidRequestError
from segue.gateway.accounts.account import digest_of
from segue.gateway.doors.paths import keys_of
from segue.gateway.requests.web import JSON_TYPE, WebResponse, own_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.register import Accounts
    from segue.gateway.doors.paths import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.requests.web import WebRequest
    from segue.providers.batches.wire_batch import BatchAccess

_KIND: Final = "upload"
_SECRET: Final = "upload_id"  # noqa: S105 - the name of a parameter
_LONGEST: Final = 100
_HEADERS: Final = "x-goog-upload-"


@final
class _Begun(Struct, frozen=True, kw_only=True):
    """An upload. It is kept as JSON under the secret of its address."""

    caller: str
    key_sha256: str
    """Of the key that began it; empty where there are no accounts."""
    provider: str
    target: str
    """Where the provider takes its bytes."""


def is_upload(door: Door) -> bool:
    return door.path is not None and door.path.pattern.startswith("/upload/")


@final
class Uploads:
    """Those that have begun."""

    def __init__(self, memory: Memory, accounts: Accounts) -> None:
        self._memory = memory
        self._accounts = accounts

    async def account(self, door: Door, request: WebRequest) -> Account | None:
        """Whose upload a request without a key continues; None if it continues none. The secret of an upload opens nothing else."""
        begun = await self._begun(request) if is_upload(door) else None
        return None if begun is None else await self._accounts.find_digest(begun.key_sha256)

    async def provider(self, request: WebRequest, account: Account) -> str:
        """Where the upload is that a request continues; empty if it begins one. Raises for somebody else's."""
        if _SECRET not in request.query:
            return ""
        begun = await self._begun(request)
        if begun is None or begun.caller != account.name:
            raise InvalidRequestError("There is no such upload.", code="not_found", status=404)
        return begun.provider

    async def begin(
        self, door: Door, request: WebRequest, account: Account, access: BatchAccess
    ) -> WebResponse:
        if (
            request.headers.get("x-goog-upload-protocol") != "resumable"
            or request.headers.get("x-goog-upload-command") != "start"
        ):
            raise InvalidRequestError(
                "Files are uploaded by the resumable protocol here.",
                code="unsupported_upload",
                status=400,
                hint="Send x-goog-upload-protocol: resumable and x-goog-upload-command: start.",
            )
        target = await access.begin_upload(request.body, _sent(request))
        if target is None:
            raise InvalidRequestError(
                f"{access.provider} takes no files in pieces.", code="not_found", status=404
            )
        begun = _Begun(
            caller=account.name,
            key_sha256=await self._digest(keys_of(request, door.dialect), account),
            provider=access.provider,
            target=target,
        )
        secret = secrets.token_urlsafe(32)
        await self._memory.put_object("", _KIND, secret, msgspec.json.encode(begun))
        address = f"{own_address(request)}{request.path}?{_SECRET}={secret}&upload_protocol=resumable"
        headers = {"x-goog-upload-url": address, "x-goog-upload-status": "active"}
        return WebResponse(headers={"content-type": JSON_TYPE, **headers}, body=b"{}")

    async def bring(self, request: WebRequest, access: BatchAccess) -> tuple[WebResponse, dict[str, Any]]:
        """A piece of a file, and the file if it was the last one."""
        begun = await self._begun(request)
        assert begun is not None  # noqa: S101 - `provider` has found it
        async with access.upload_piece(begun.target, request.body, _sent(request)) as answer:
            received = await answer.read()
            headers = {
                name.lower(): value
                for name, value in answer.headers.items()
                if name.lower().startswith(_HEADERS) and not name.lower().endswith("-url")
            }
        headers["content-type"] = answer.headers.get("content-type", JSON_TYPE)
        if headers.get("x-goog-upload-status") == "final":
            await self._memory.delete_object("", _KIND, request.query[_SECRET])
        answered = WebResponse(status=answer.status, headers=headers, body=received)
        return answered, _file_in(received)

    async def _begun(self, request: WebRequest) -> _Begun | None:
        secret = request.query.get(_SECRET, "")
        if not secret or len(secret) > _LONGEST:
            return None
        data = await self._memory.get_object("", _KIND, secret)
        return None if data is None else msgspec.json.decode(data, type=_Begun)

    async def _digest(self, keys: Sequence[str], account: Account) -> str:
        for digest in map(digest_of, keys):
            if (found := await self._accounts.find_digest(digest)) is not None and found.name == account.name:
                return digest
        return ""


def _sent(request: WebRequest) -> dict[str, str]:
    return {
        name: value
        for name, value in request.headers.items()
        if name == "content-type" or name.startswith(_HEADERS)
    }


def _file_in(received: bytes) -> dict[str, Any]:
    """Empty if there is none yet."""
    try:
        told: Mapping[str, Any] = msgspec.json.decode(received or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    file = told.get("file")
    return file if isinstance(file, dict) else {}
