"""Which wire and which operation a request asks for, and with which keys, by its path and headers. All paths come from the
dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct, structs

from segue.dialects.dialect import Dialect
from segue.dialects.registry import DIALECTS, WIRES, recognise
from segue.dialects.server_side.wire_server import Operation, Reframe, ServerFacts, ServerPath
from segue.gateway.requests.client_errors import signature_error
from segue.providers.models.cards import dialect_of_model

if TYPE_CHECKING:
    from datetime import datetime

    from segue.errors import CredentialsError
    from segue.gateway.requests.web import WebRequest

USUAL: Final = "openai_chat"
"""The wire of clients without marks, and of errors on paths that no wire has."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METHODS: Final = ("POST", "GET", "PATCH", "DELETE")
_USUAL_PUBLISHER: Final = "google"


@final
class Door(Struct, frozen=True, kw_only=True):
    """Where a request came in."""

    dialect: Dialect
    operation: Operation
    params: Mapping[str, str] = {}
    """What the path holds: a model, an id."""
    stream: bool | None = None
    """Whether the path decides that the reply is streamed."""
    path: ServerPath | None = None

    def opened(self, request: WebRequest) -> WebRequest:
        """A request that names the model that the path names, as clients of the wire itself write it. All other values stay byte
        for byte; what is no JSON object is left to those who read it."""
        server, model, body = self.dialect.server, self.params.get("model"), request.body
        drops = self.path.drops if self.path is not None else ()
        betas = self.path.betas_field if self.path is not None else ""
        if not body or not server.model_field or not (model or drops):
            return request
        try:
            fields = _FIELDS.decode(body)
            headers = {**request.headers, **_beta_headers(server, fields.pop(betas, None))}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return request
        named: dict[str, object] = {server.model_field: model} if model else {}
        if self.stream is not None and server.stream_field:
            named[server.stream_field] = self.stream
        kept = {name: value for name, value in fields.items() if name not in drops and name not in named}
        return structs.replace(request, headers=headers, body=msgspec.json.encode({**named, **kept}))

    def reframed(self, query: Mapping[str, str], *, stream: bool) -> Reframe | None:
        """What changes the frames of the reply for this door; None if they are those of the wire."""
        usual = self.dialect.server.reframe(self.operation, query, stream=stream)
        return self.path.frames() if usual is None and self.path is not None and self.path.frames else usual


@final
class Doors:
    """All paths of all wires. Where wires share a path, the client's headers show which one it uses, or else the fields of its
    request, or else the model that it asks for."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, str], list[Door]] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Door]] = []
        for name in WIRES:
            dialect = DIALECTS[name]
            for path in dialect.server.paths:
                door = Door(dialect=dialect, operation=path.operation, stream=path.stream, path=path)
                for pattern in (path.pattern, dialect.server.prefix + path.pattern):
                    if "{" in pattern:
                        self._patterns.append((path.method, _compiled(pattern), door))
                    else:
                        self._exact.setdefault((path.method, pattern), []).append(door)

    def find(self, method: str, path: str, headers: Mapping[str, str]) -> Door | None:
        """None if there is no such path, or not with this method."""
        found = self._all(method, path)
        if found and found[0].operation == "batch" and _is_stranger(found, headers):
            return None
        if len(found) > 1:
            return min(found, key=lambda door: _rank(door.dialect, headers))
        return found[0] if found else None

    def by_body(self, door: Door, request: WebRequest) -> Door:
        """The door of a chat whose headers name no client of a wire: the one that the body shows."""
        others = [
            other
            for other in self._all(request.method, request.path)
            if other.dialect is not door.dialect and other.operation == door.operation
        ]
        if door.operation != "chat" or not others or _rank(door.dialect, request.headers) == 0:
            return door
        try:
            fields = _FIELDS.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return door
        for other in others:
            shown = other.dialect.server.shown_by(fields)
            if shown or (shown is None and _asked_dialect(fields) == other.dialect.name):
                return other
        return door

    def recognise(self, request: WebRequest, fields: Mapping[str, Any]) -> str:
        """The wire of a request that came on no path of a wire, by its headers and its body; empty if they show none."""
        possible = [name for name in WIRES if DIALECTS[name].recognises(fields) > 0]
        marked = [name for name in possible if _rank(DIALECTS[name], request.headers) == 0]
        if marked:
            return marked[0]
        found = recognise(fields)
        usual = DIALECTS[found].server.paths[0] if found else None
        if usual is None or "{" in usual.pattern:
            return found
        door = self.find(usual.method, usual.pattern, request.headers)
        at_door = structs.replace(request, method=usual.method, path=usual.pattern)
        return self.by_body(door, at_door).dialect.name if door is not None else found

    def _all(self, method: str, path: str) -> list[Door]:
        path = "/" + path.strip("/")  # a base URL that ends with a slash gives two of them
        return self._exact.get((method, path)) or [
            structs.replace(door, params=_params(match.groupdict()))
            for wanted, pattern, door in self._patterns
            if wanted == method and (match := pattern.fullmatch(path))
        ]

    def wire_of(self, method: str, path: str, headers: Mapping[str, str]) -> Dialect:
        """The wire whose clients come closest to this request, for the form of an error."""
        for asked in (method, *_METHODS):
            if (door := self.find(asked, path, headers)) is not None:
                return door.dialect
        dialects = [DIALECTS[name] for name in WIRES]
        marked = [dialect for dialect in dialects if _rank(dialect, headers) == 0]
        prefixed = [dialect for dialect in dialects if path.startswith(dialect.server.prefix + "/")]
        return next(iter((*prefixed, *marked)), DIALECTS[USUAL])


def _is_stranger(doors: Sequence[Door], headers: Mapping[str, str]) -> bool:
    """Whether the headers show a client of other wires alone, whose API has something else of the same name: `/v1/files`."""
    marked = {name for name in WIRES if _rank(DIALECTS[name], headers) == 0}
    return bool(marked) and marked.isdisjoint(door.dialect.name for door in doors)


def _beta_headers(server: ServerFacts, listed: msgspec.Raw | None) -> dict[str, str]:
    """Betas that a cloud's clients list in the body, as the header in which others name them."""
    betas = msgspec.json.decode(listed, type=list[str]) if listed is not None else []
    return {server.beta_headers[0]: ",".join(betas)} if betas else {}


def _params(found: dict[str, str]) -> dict[str, str]:
    """Google's SDK makes `publishers/openai/models/gpt-4.1` of `openai/gpt-4.1`: that is a provider of ours and its model."""
    publisher = found.get("publisher", _USUAL_PUBLISHER)
    return found if publisher == _USUAL_PUBLISHER else {**found, "model": f"{publisher}/{found['model']}"}


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
    return 1 if dialect.name == USUAL else 2


def _asked_dialect(fields: Mapping[str, msgspec.Raw]) -> str:
    """The wire of whoever made the model that is asked for by its own name; empty if that shows none. Who puts a provider before
    it knows that this is a gateway."""
    try:
        name = msgspec.json.decode(fields.get("model", b'""'), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "" if "/" in name else dialect_of_model(name)


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
