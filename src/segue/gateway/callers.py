"""Who calls: the key that a client sends, in whichever header its wire has for it."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Final, final

from segue.gateway.client_errors import caller_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.config.schema import CallerSettings
    from segue.dialects.dialect import Dialect
    from segue.gateway.web import WebRequest

ANYONE: Final = "local"
"""The caller where none is configured: the gateway then serves this machine only."""


@final
class Callers:
    """Knows keys by their digests."""

    def __init__(
        self, callers: Mapping[str, CallerSettings], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._digests: dict[str, str] = {}
        for name, settings in callers.items():
            digest = settings.key_sha256.lower()
            if settings.key_env and environ.get(settings.key_env):
                digest = _digest(environ[settings.key_env])
            if digest:
                self._digests[digest] = name
        self._anyone = not callers

    def caller(self, request: WebRequest, dialect: Dialect) -> str:
        """The caller's name. Raises the error of an unknown key."""
        if self._anyone:
            return ANYONE
        for key in _keys(request, dialect):
            digest = _digest(key)
            for known, name in self._digests.items():
                if hmac.compare_digest(known, digest):
                    return name
        raise caller_error()


def _keys(request: WebRequest, dialect: Dialect) -> list[str]:
    server = dialect.server
    found = [request.headers.get(name, "") for name in server.key_headers]
    if server.key_query:
        found.append(request.query.get(server.key_query, ""))
    return [key[7:].strip() if key[:7].lower() == "bearer " else key for key in found if key]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
