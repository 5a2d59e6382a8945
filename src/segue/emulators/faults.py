"""What can go wrong on demand: one fault spoils one answer, in the order they were queued.

Some are sent instead of the answer; the others happen to its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from segue.emulators.http import ErrorWords, Response, error_response, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.rules import Context, Refusal

HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
FaultKind = Literal[
    "status",  # the provider's own error answer for `status`
    "error_mid_stream",  # the stream starts, then the provider's error event, then the end
    "headers",  # the answer with `headers` beside its own, as of rate limits
    "cut",  # the connection breaks after `at_byte` bytes of the body
    "drip",  # the body arrives `size` bytes at a time, `seconds` apart
    "malformed",  # one frame of the body is broken JSON: the second, or one from `at_byte` on
    "content_type",  # a page of HTML instead of the API's answer
    "empty",  # status 200 and no body at all
    "silence",  # nothing is sent for `seconds`, then the connection breaks
]


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure to inject into one answer."""

    kind: FaultKind = "status"
    status: int = 429
    retry_after: float | None = 1.0
    """Seconds that the provider asks to wait; None leaves the hint out."""
    at_byte: int = 0
    size: int = 1
    seconds: float = 0.01
    message: str = ""
    """Replaces the provider's usual wording."""
    headers: Mapping[str, str] = {}
    provider: str = ""
    """Spoil only an answer of this provider ("" = of any)."""
    method: str = ""
    path: str = ""
    """Spoil only an answer to this method, and to a path that ends so ("" = to any)."""


def replaces_the_answer(fault: Fault) -> bool:
    """These faults happen before anybody looks at the request."""
    return fault.kind in ("status", "content_type", "empty", "silence")


def instead(fault: Fault, errors: ErrorWords, context: Context) -> Response:
    match fault.kind:
        case "content_type":
            return Response(headers={"content-type": "text/html; charset=utf-8"}, body=HTML)
        case "empty":
            return Response(headers={"content-type": "application/json"})
        case "silence":
            headers = {"content-type": "application/json"}
            return Response(headers=headers, silent_for=fault.seconds, cut=True)
        case _:
            return _error(_refusal(fault, errors, context), errors, context)


def spoil(fault: Fault, response: Response, errors: ErrorWords, context: Context) -> Response:
    streamed = not isinstance(response.body, bytes)
    body = response.body if not isinstance(response.body, bytes) else iter([response.body])
    match fault.kind:
        case "error_mid_stream":
            refusal = _refusal(fault, errors, context)
            if not streamed:
                return _error(refusal, errors, context)
            portions = _then_error(body, fault.at_byte, _stream_error(refusal, errors, context))
            return structs.replace(response, body=portions)
        case "headers":
            return structs.replace(response, headers={**response.headers, **fault.headers})
        case "cut":
            return structs.replace(response, body=_first(body, fault.at_byte), cut=True)
        case "drip":
            portions = _drops(body, max(fault.size, 1))
            return structs.replace(response, body=portions, delay=fault.seconds)
        case _:
            return structs.replace(response, body=_one_broken(body, fault.at_byte))


def _refusal(fault: Fault, errors: ErrorWords, context: Context) -> Refusal:
    """The provider's own words, unless the fault brings others."""
    usual = errors.fault(fault, context)
    return structs.replace(
        usual,
        status=fault.status,
        message=fault.message or usual.message,
        retry_after=fault.retry_after,
    )


def _error(refusal: Refusal, errors: ErrorWords, context: Context) -> Response:
    # No rule was broken: the log names the fault instead.
    return structs.replace(error_response(errors, refusal, context), refusal=None)


def _stream_error(refusal: Refusal, errors: ErrorWords, context: Context) -> bytes:
    if errors.stream_error is not None:
        return errors.stream_error(refusal, context)
    return sse(errors.envelope(refusal, context))


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


def _one_broken(body: Iterator[bytes], at_byte: int) -> Iterator[bytes]:
    """One frame loses the end of its JSON, its line endings stay: the second, or a later one that begins at this byte or
    behind it; the last, if there is none."""
    held = next(body, b"")
    sent, broken = 0, False
    for number, portion in enumerate(body):
        spoiled = number > 0 and sent >= at_byte and not broken
        broken = broken or spoiled
        yield _broken(held) if spoiled else held
        sent += len(held)
        held = portion
    yield held if broken else _broken(held)


def _broken(portion: bytes) -> bytes:
    line = portion.rstrip(b"\r\n")
    return line[: max(len(line) - 3, 0)] + portion[len(line) :]
