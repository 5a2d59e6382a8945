"""Which wire and which operation a request asks for, and with which keys, by its path and headers. All paths come from the
dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.dialects.dialect import Dialect
from segue.dialects.registry import DIALECTS, WIRES
from segue.dialects.server import Operation

if TYPE_CHECKING:
    from segue.dialects.server import ServerPath
    from segue.gateway.web import WebRequest

USUAL: Final = "openai_chat"
"""The wire of errors on paths that no wire has."""


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
        self._exact: dict[str, list[tuple[Dialect, ServerPath]]] = {}
        self._patterns: list[tuple[re.Pattern[str], Dialect, ServerPath]] = []
        for name in WIRES:
            dialect = DIALECTS[name]
            for path in dialect.server.paths:
                for pattern in (path.pattern, dialect.server.prefix + path.pattern):
                    if "{" in pattern:
                        self._patterns.append((_compiled(pattern), dialect, path))
                    else:
                        self._exact.setdefault(pattern, []).append((dialect, path))

    def find(self, method: str, path: str, headers: Mapping[str, str]) -> Door | None:
        """None if there is no such path, or not with this method."""
        path = path.rstrip("/") or "/"
        found: list[tuple[Dialect, ServerPath, dict[str, str]]] = [
            (dialect, known, {}) for dialect, known in self._exact.get(path, ()) if known.method == method
        ] or [
            (dialect, known, match.groupdict())
            for pattern, dialect, known in self._patterns
            if known.method == method and (match := pattern.fullmatch(path))
        ]
        if not found:
            return None
        one = found[0] if len(found) == 1 else min(found, key=lambda entry: _rank(entry[0], headers))
        dialect, known, params = one
        return Door(dialect=dialect, operation=known.operation, params=params, stream=known.stream)

    def wire_of(self, method: str, path: str, headers: Mapping[str, str]) -> Dialect:
        """The wire whose clients come closest to this request, for the form of an error."""
        if (door := self.find(method, path, headers)) is not None:
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
    found = [request.headers.get(name, "") for name in server.key_headers]
    if server.key_query:
        found.append(request.query.get(server.key_query, ""))
    return [key[7:].strip() if key[:7].lower() == "bearer " else key for key in found if key]
