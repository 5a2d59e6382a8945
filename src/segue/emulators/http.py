"""The small HTTP vocabulary of the emulators: requests, the kinds of responses, and finding the handler for a path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, field

from segue.emulators.rules import Context, Refusal

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.faults import Fault
    from segue.emulators.model.model_reply import Reply

DEPTH_MAX = 128
"""No request of a real client is nested deeper, and nothing below has to fear for its stack."""


class BadJsonError(ValueError):
    """The body of a request is not JSON (or nested too deeply to be read)."""


class Request(Struct, frozen=True, kw_only=True):
    """One request, whole: emulators never see a body in portions."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    target: str = ""
    """Path and query as they were sent, which is what signatures are about."""
    params: Mapping[str, str] = field(default_factory=dict)
    """What the path pattern caught: ``/v1/models/{id}`` → ``{"id": …}``."""
    mounted: str = ""
    """The provider that it was sent to: a cloud serves the wires of others."""

    def json(self) -> Any:
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise BadJsonError(str(error)) from error
        if _too_deep(value):
            raise BadJsonError(f"more than {DEPTH_MAX} levels deep")
        return value


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


class Response(Struct, frozen=True, kw_only=True):
    """One answer. A body that is an iterator is streamed, one portion per step, `delay` seconds apart."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterator[bytes] = b""
    delay: float = 0.0
    silent_for: float = 0.0
    """Seconds before anything is sent."""
    cut: bool = False
    """The connection breaks after the last portion instead of ending properly."""
    refusal: Refusal | None = None
    """The rule that was broken, for the request log; None when the request was accepted."""


Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler: TypeAlias = Callable[[Request, "Emulator"], Response]
Route: TypeAlias = tuple[str, str, Handler]
"""Method, path pattern (``/v1beta/models/{model}:generateContent``; ``{name:path}`` also catches slashes), handler."""


def json_response(
    value: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    merged = {"content-type": "application/json", **(headers or {})}
    return Response(status=status, headers=merged, body=msgspec.json.encode(value), refusal=refusal)


FaultWords: TypeAlias = Callable[["Fault", Context], Refusal]


class ErrorWords(Struct, frozen=True, kw_only=True):
    """How one wire of a provider words its errors."""

    provider: str
    envelope: Callable[[Refusal, Context], dict[str, Any]]
    """The body of an answer that refuses."""
    headers: Callable[[Refusal | None, Context], dict[str, str]]
    """Beside every answer; without a refusal the headers of success."""
    fault: FaultWords
    """What it says when something goes wrong on its own side."""
    not_json: Callable[[bytes, str], Refusal]
    """About a body that cannot be read, with what the parser said."""
    wrong_key: Callable[[str], Refusal] | None = None
    """None takes any key."""
    stream_error: Callable[[Refusal, Context], bytes] | None = None
    """None sends the body of the error as one more event."""


def error_response(errors: ErrorWords, refusal: Refusal, context: Context) -> Response:
    """A refusal as the provider words it."""
    headers = errors.headers(refusal, context)
    if refusal.plain:
        headers = {"content-type": "text/plain; charset=utf-8", **headers}
        text = refusal.message.encode("utf-8", "replace")
        return Response(status=refusal.status, headers=headers, body=text, refusal=refusal)
    body = errors.envelope(refusal, context)
    return json_response(body, status=refusal.status, headers=headers, refusal=refusal)


def retry_after(refusal: Refusal | None) -> dict[str, str]:
    """The header that says when to try again, as most providers write it."""
    if refusal is None or refusal.retry_after is None:
        return {}
    return {"retry-after": f"{refusal.retry_after:g}"}


def reply_response(
    reply: Reply,
    body: Mapping[str, Any],
    context: Context,
    errors: ErrorWords,
    *,
    whole: Callable[[Reply, Mapping[str, Any], Context], object],
    stream: Callable[[Reply, Mapping[str, Any], Context], Iterator[bytes]],
) -> Response:
    """A reply as the provider writes it: whole, or streamed if the request asks for that."""
    headers = errors.headers(None, context)
    if body.get("stream") is True and not context.sends_whole:
        return stream_response(stream(reply, body, context), headers=headers, delay=reply.delay)
    return json_response(whole(reply, body, context), headers=headers)


def sse(value: object, event: str = "") -> bytes:
    """One server-sent event, with its name where the provider names them."""
    name = f"event: {event}\n" if event else ""
    return name.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"


def stream_response(
    portions: Iterator[bytes],
    *,
    content_type: str = "text/event-stream; charset=utf-8",
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Response:
    return Response(headers={"content-type": content_type, **(headers or {})}, body=portions, delay=delay)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)(:path)?\}", pattern)
    source = ""
    for literal, name, path in zip(pieces[::3], [*pieces[1::3], None], [*pieces[2::3], None], strict=True):
        source += re.escape(literal)
        if name is not None:
            source += f"(?P<{name}>.+?)" if path else f"(?P<{name}>[^/]+?)"
    return re.compile(source)


def find_route(routes: Sequence[Route], method: str, path: str) -> tuple[Handler, dict[str, str]] | int:
    """The handler and what its pattern caught; else 405 when only the method is wrong, 404 when nothing fits."""
    known_path = False
    for wanted, pattern, handler in routes:
        caught = _compiled(pattern).fullmatch(path)
        if caught and wanted == method:
            return handler, caught.groupdict()
        known_path = known_path or caught is not None
    return 405 if known_path else 404
