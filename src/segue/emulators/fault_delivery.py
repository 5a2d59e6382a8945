"""How a fault spoils an answer: what is sent instead, or what happens to the bytes of the real answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from segue.emulators.http import Response, json_response
from segue.emulators.rules import Context, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from segue.emulators.faults import Fault

HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
TYPES = {429: "rate_limit_error", 503: "overloaded_error", 529: "overloaded_error", 504: "timeout_error"}


class Delivery(Struct, frozen=True, kw_only=True):
    """An answer and how it goes over the wire."""

    response: Response
    silent_for: float = 0.0
    cut: bool = False
    """The connection breaks after the last portion instead of ending properly."""


def replaces_the_answer(fault: Fault) -> bool:
    """These faults happen before anybody looks at the request."""
    return fault.kind in ("status", "content_type", "empty", "silence")


def instead(fault: Fault, errors: ModuleType, context: Context) -> Delivery:
    match fault.kind:
        case "content_type":
            headers = {"content-type": "text/html; charset=utf-8"}
            return Delivery(response=Response(headers=headers, body=HTML))
        case "empty":
            return Delivery(response=Response(headers={"content-type": "application/json"}))
        case "silence":
            headers = {"content-type": "application/json"}
            return Delivery(response=Response(headers=headers), silent_for=fault.seconds, cut=True)
        case _:
            return Delivery(response=_error(refusal_for(fault, errors, context), errors, context))


def spoil(fault: Fault, response: Response, errors: ModuleType, context: Context) -> Delivery:
    streamed = not isinstance(response.body, bytes)
    body = response.body if not isinstance(response.body, bytes) else iter([response.body])
    match fault.kind:
        case "error_mid_stream":
            refusal = refusal_for(fault, errors, context)
            if not streamed:
                return Delivery(response=_error(refusal, errors, context))
            portions = _then_error(body, fault.at_byte, _stream_error(refusal, errors, context))
            return Delivery(response=structs.replace(response, body=portions))
        case "cut":
            return Delivery(response=structs.replace(response, body=_first(body, fault.at_byte)), cut=True)
        case "drip":
            portions = _drops(body, max(fault.size, 1))
            return Delivery(response=structs.replace(response, body=portions, delay=fault.seconds))
        case _:
            broken = _one_broken(body)
            return Delivery(response=structs.replace(response, body=broken))


def refusal_for(fault: Fault, errors: ModuleType, context: Context) -> Refusal:
    """The provider's own words where it has some, else plain ones."""
    words: Any = getattr(errors, "fault", None)
    if words is None:
        return Refusal(
            "fault",
            fault.message or "The server could not answer.",
            status=fault.status,
            type=TYPES.get(fault.status, "api_error"),
            retry_after=fault.retry_after,
        )
    refusal: Refusal = words(fault, context)
    return structs.replace(refusal, retry_after=fault.retry_after)


def _error(refusal: Refusal, errors: ModuleType, context: Context) -> Response:
    headers: dict[str, str] = {}
    if hasattr(errors, "headers"):
        headers = dict(errors.headers(refusal, context))
    elif refusal.retry_after is not None:
        headers = {"retry-after": f"{refusal.retry_after:g}"}
    return json_response(errors.envelope(refusal, context), status=refusal.status, headers=headers)


def _stream_error(refusal: Refusal, errors: ModuleType, context: Context) -> bytes:
    if hasattr(errors, "stream_error"):
        return bytes(errors.stream_error(refusal, context))
    body = json_response(errors.envelope(refusal, context)).body
    return b"data: " + body + b"\n\n" if isinstance(body, bytes) else b""


def _then_error(body: Iterator[bytes], at_byte: int, error: bytes) -> Iterator[bytes]:
    sent = 0
    for portion in body:
        yield portion
        sent += len(portion)
        if sent >= at_byte:
            break
    yield error


def _first(body: Iterator[bytes], amount: int) -> Iterator[bytes]:
    for portion in body:
        if len(portion) >= amount:
            yield portion[:amount]
            return
        yield portion
        amount -= len(portion)


def _drops(body: Iterator[bytes], size: int) -> Iterator[bytes]:
    for portion in body:
        for start in range(0, len(portion), size):
            yield portion[start : start + size]


def _one_broken(body: Iterator[bytes]) -> Iterator[bytes]:
    """The second frame (of one: the first) loses the end of its JSON, its line endings stay."""
    first = next(body, b"")
    second = next(body, None)
    if second is None:
        yield _broken(first)
        return
    yield first
    yield _broken(second)
    yield from body


def _broken(portion: bytes) -> bytes:
    line = portion.rstrip(b"\r\n")
    return line[: max(len(line) - 3, 0)] + portion[len(line) :]
