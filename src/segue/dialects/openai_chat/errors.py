"""Errors of OpenAI and of the servers that use its wire, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from segue.dialects.errors import (
    IN_REPLY,
    MAX_MESSAGE,
    FailedResponse,
    first_fault_place,
    read_response,
    wire_errors,
)
from segue.text.redaction import redact_text

if TYPE_CHECKING:
    from segue.dialects.openai_chat.rules import Variant
    from segue.errors import ProviderError, SegueError

WIRE = "openai_chat"
"""All servers of this wire have the same error object."""


def decode_error(variant: Variant, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    response, value = read_response(status, headers, body)
    fields = _read(value) if value is not None else _ErrorFields("")
    return _error_from(variant, fields, response, value)


def error_in_reply(variant: Variant, error: Any) -> ProviderError:
    """An error that came where an answer was expected, after status 200 (CHAT-64, ORT-01)."""
    fields = _read({"error": error} if not isinstance(error, Mapping) or "error" not in error else error)
    return _error_from(variant, fields, IN_REPLY, {"error": error})


def _error_from(
    variant: Variant, fields: _ErrorFields, response: FailedResponse, envelope: Any
) -> ProviderError:
    message = response.words(fields.message)
    response, errors = response.judged_by(fields.status), wire_errors(WIRE)
    return errors.error(
        response,
        errors.kind_of(message, fields.names, response.status, variant.name),
        message,
        code=fields.code,
        path=fields.param,
        request_id=fields.request_id,
        wait=fields.wait,
        envelope=envelope,
    )


class _ErrorFields(Struct):
    """What an error body holds, whatever its form."""

    message: str
    names: list[str] = []
    param: str = ""
    request_id: str = ""
    status: int = 0
    wait: float | None = None

    @property
    def code(self) -> str:
        """The most specific name: a code or a type, but not the status again."""
        return next((name for name in self.names if not (len(name) == 3 and name.isdigit())), "")


def _read(value: Any) -> _ErrorFields:
    if isinstance(value, list) and value:  # Gemini's own server on this wire
        value = value[0]
    if not isinstance(value, Mapping):
        return _ErrorFields(_text(value))
    inner = value.get("error")
    base = value.get("base_resp")  # MiniMax, with status 200
    if isinstance(base, Mapping) and not inner:
        inner = {"message": base.get("status_msg"), "code": base.get("status_code")}
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else value
    message = _text(fields.get("message") or fields.get("detail") or fields.get("msg"))
    if not isinstance(inner, Mapping):  # XAI-01, and many others: the error is the sentence
        message = _text(inner) or message
    names = (fields.get("code"), fields.get("type"))
    wait = value.get("estimated_time")
    found = _ErrorFields(
        message,
        [str(name) for name in names if isinstance(name, str | int) and name],
        _text(fields.get("param")) or first_fault_place(fields.get("detail")),
        _text(value.get("request_id") or fields.get("request_id")),
        _status(fields),
        float(wait) if isinstance(wait, int | float) else None,
    )
    _read_upstream(found, fields.get("metadata"))
    return found


def _read_upstream(found: _ErrorFields, metadata: Any) -> None:
    """ORT-01: the error of the provider behind OpenRouter."""
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not raw:
        return
    try:
        inner = _read(msgspec.json.decode(raw)) if isinstance(raw, str) else _read(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        inner = _ErrorFields(_text(raw))
    found.message = f"{found.message}: {inner.message}" if inner.message else found.message
    found.names += inner.names
    found.param = found.param or inner.param


def _status(fields: Mapping[str, Any]) -> int:
    for name in ("status_code", "http_code", "code"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _text(value: Any) -> str:
    """The start of a text: patterns are searched in it, and a server may send megabytes."""
    if isinstance(value, str):
        return value[:MAX_MESSAGE]
    if not value:
        return ""
    try:
        return msgspec.json.encode(value)[:MAX_MESSAGE].decode("utf-8", "ignore")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)[:MAX_MESSAGE]


# The other way


def encode_error(error: SegueError) -> tuple[int, bytes]:
    """The status and body with which a server on this wire answers."""
    status, envelope = envelope_of(error)
    return status, msgspec.json.encode(envelope)


def envelope_of(error: SegueError) -> tuple[int, dict[str, Any]]:
    errors = wire_errors(WIRE)
    kind, code = errors.type_for(error)
    message = redact_text(f"{error.message} {error.hint}".strip())
    fields = {"message": message, "type": kind, "param": error.path or None}
    envelope = {"error": {**fields, "code": code or error.code or None}}
    return errors.status_for(error), errors.in_envelope(envelope, error)
