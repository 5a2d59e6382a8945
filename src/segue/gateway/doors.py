"""Which wire and which operation a request asks for, and with which keys, by its path and headers. All paths come from the
dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.dialects.dialect import Dialect
from segue.dialects.registry import DIALECTS, WIRES
from segue.dialects.server import Operation
from segue.gateway.client_errors import signature_error

if TYPE_CHECKING:
    from datetime import datetime

    from segue.errors import CredentialsError
    from segue.gateway.web import WebRequest

USUAL: Final = "openai_chat"
"""The wire of errors on paths that no wire has."""
_METHODS: Final = ("POST", "GET", "DELETE")


@final
class Door(Struct, frozen=True, kw_only=True):
    """Where a request came in."""

    dialect: Dialect
    operation: Operation
    params: Mapping[str, str] = {}
    """What the path holds: a model, an id."""
    stream: bool | None = None
    """Whether the path decides that the reply is streamed."""


@final
class Doors:
    """All paths of all wires. Where wires share a path, the client's headers show which one it uses."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, str], list[Door]] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Door]] = []
        for name in WIRES:
            dialect = DIALECTS[name]
            for path in dialect.server.paths:
                door = Door(dialect=dialect, operation=path.operation, stream=path.stream)
                for pattern in (path.pattern, dialect.server.prefix + path.pattern):
                    if "{" in pattern:
                        self._patterns.append((path.method, _compiled(pattern), door))
                    else:
                        self._exact.setdefault((path.method, pattern), []).append(door)

    def find(self, method: str, path: str, headers: Mapping[str, str]) -> Door | None:
        """None if there is no such path, or not with this method."""
        path = "/" + path.strip("/")  # a base URL that ends with a slash gives two of them
        found = self._exact.get((method, path)) or [
            structs.replace(door, params=match.groupdict())
            for wanted, pattern, door in self._patterns
            if wanted == method and (match := pattern.fullmatch(path))
        ]
        if len(found) > 1:
            return min(found, key=lambda door: _rank(door.dialect, headers))
        return found[0] if found else None

    def wire_of(self, method: str, path: str, headers: Mapping[str, str]) -> Dialect:
        """The wire whose clients come closest to this request, for the form of an error."""
        for asked in (method, *_METHODS):
            if (door := self.find(asked, path, headers)) is not None:
                return door.dialect
        dialects = [DIALECTS[name] for name in WIRES]
        marked = [dialect for dialect in dialects if _rank(dialect, headers) == 0]
        prefixed = [dialect for dialect in dialects if path.startswith(dialect.server.prefix + "/")]
        return next(iter((*prefixed, *marked)), DIALECTS[USUAL])


def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", pattern)
    names = [f"(?P<{name}>{'.+?' if name == 'model' else '[^/]+?'})" for name in pieces[1::2]]
    literals = [re.escape(piece) for piece in pieces[::2]]
    return re.compile("".join(part for pair in zip(literals, [*names, ""], strict=True) for part in pair))


def _rank(dialect: Dialect, headers: Mapping[str, str]) -> int:
    """0: the headers show this wire; 1: it is the one for clients without marks; 2: they show no client of it."""
    marks = dialect.server.client_marks
    if any(name in headers and part in headers[name].lower() for name, part in marks):
        return 0
    return 2 if marks else 1


def keys_of(request: WebRequest, dialect: Dialect) -> list[str]:
    """The keys that a client sends, in whichever headers its wire has for them."""
    server = dialect.server
    signatures = server.signatures
    if signatures is not None and signatures.is_signed(request.headers):
        return [signatures.key(request.headers)]
    keys = [_bare(key) for name in server.key_headers if (key := request.headers.get(name))]
    if server.key_query and (key := request.query.get(server.key_query)):
        keys.append(_bare(key))
    return keys


def _bare(key: str) -> str:
    return key[7:].strip() if key[:7].lower() == "bearer " else key


def check_signature(request: WebRequest, dialect: Dialect, now: datetime) -> None:
    """Raises for a signed request, whose key is known, if the signature is not made with it."""
    signatures = dialect.server.signatures
    if signatures is None or not signatures.is_signed(request.headers):
        return
    asked = request.method, request.target, request.headers, request.body
    if problem := signatures.problem(*asked, now=now):
        raise signature_error(problem, signatures.advice)


def unknown_key(error: CredentialsError, request: WebRequest, dialect: Dialect) -> CredentialsError:
    """The error for a request whose key is not known: who signs is told what with."""
    signatures = dialect.server.signatures
    if signatures is None or not signatures.is_signed(request.headers):
        return error
    return signature_error("This request is not signed with a key of this gateway.", signatures.advice)
