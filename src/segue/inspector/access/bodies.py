"""What a page sends: read within limits, and decoded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from segue.gateway.requests.web import Receive

_SECONDS: Final = 30.0
_T = TypeVar("_T")


async def read_body(receive: Receive, most: int) -> bytes:
    """Raises if it is larger than `most` bytes, or takes too long."""
    portions, size, more = list[bytes](), 0, True
    async with asyncio.timeout(_SECONDS):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise InvalidRequestError("The client has gone.", code="gone")
            portions.append(message.get("body", b""))
            size += len(portions[-1])
            if size > most:
                raise InvalidRequestError("This is too large.", code="too_large", status=413)
            more = message.get("more_body", False)
    return b"".join(portions)


def decoded(body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            f"This is not what the page sends: {error}.", code="bad_body", status=400
        ) from error
