"""JSON responses as typed values, or a clear error if a server sends something else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from segue.errors import ProtocolError
from segue.transports.transport import shown_address

if TYPE_CHECKING:
    from segue.providers.endpoint import Endpoint

T = TypeVar("T")


async def request_json(endpoint: Endpoint, method: str, path: str, kind: type[T], body: object = None) -> T:
    """Send a request; its whole response must be of this type."""
    sent = b"" if body is None else msgspec.json.encode(body)
    async with endpoint.ask(method, path, sent) as answer:
        received = await answer.read()
    try:
        return msgspec.json.decode(received, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(endpoint, f"{method} {path}", str(error)) from error


def unreadable(endpoint: Endpoint, what: str, why: str) -> ProtocolError:
    """The error for a response that the API does not document."""
    return endpoint.named(
        ProtocolError(
            f"{endpoint.provider} answered {what} with something that is not in its API: {why}.",
            code="unexpected_answer",
            hint=f"Check that {shown_address(endpoint.base_url)} is the address of its API.",
        )
    )


def in_path(model: str) -> str:
    """A model's name as a part of an address; a vendor's path stays one."""
    return quote(model, safe="/:@")


def whole(value: Any) -> int | None:
    """A positive whole number; None if the server sent anything else."""
    return value if type(value) is int and value > 0 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def moment(seconds: Any) -> str:
    """A UNIX time as ISO 8601."""
    if type(seconds) not in (int, float) or not 0 < seconds < 1e11:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
