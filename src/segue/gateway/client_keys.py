"""The keys that a client sends, in whichever headers its wire has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.dialects.dialect import Dialect
    from segue.gateway.web import WebRequest


def keys_of(request: WebRequest, dialect: Dialect) -> list[str]:
    server = dialect.server
    found = [request.headers.get(name, "") for name in server.key_headers]
    if server.key_query:
        found.append(request.query.get(server.key_query, ""))
    return [key[7:].strip() if key[:7].lower() == "bearer " else key for key in found if key]
