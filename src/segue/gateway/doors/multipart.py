"""Forms in which clients upload files, as far as the gateway has to look into them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from segue.gateway.requests.web import WebRequest

_BOUNDARY: Final = re.compile(r'boundary="?([^";,\s]+)"?', re.IGNORECASE)
_NAME: Final = re.compile(rb'[;\s]name="([^"]*)"', re.IGNORECASE)


def form_fields(request: WebRequest) -> dict[str, bytes]:
    """The content of each field; empty if the body is no form."""
    return {name: value for _, name, value in _parts(request) if name}


def with_file(request: WebRequest, content: bytes) -> bytes:
    """The same form with another content of its field `file`."""
    boundary = _boundary(request)
    pieces = [
        head + b"\r\n\r\n" + (content if name == "file" else value) + b"\r\n"
        for head, name, value in _parts(request)
    ]
    return b"".join(b"--" + boundary + b"\r\n" + piece for piece in pieces) + b"--" + boundary + b"--\r\n"


def _boundary(request: WebRequest) -> bytes:
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    return found[1].encode("latin-1") if found else b""


def _parts(request: WebRequest) -> list[tuple[bytes, str, bytes]]:
    """The head, the name and the content of each part."""
    boundary = _boundary(request)
    if not boundary:
        return []
    found = list[tuple[bytes, str, bytes]]()
    for part in request.body.split(b"--" + boundary)[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = _NAME.search(head)
        found.append((head, name[1].decode("latin-1") if name else "", value.removesuffix(b"\r\n")))
    return found
