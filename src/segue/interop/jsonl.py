"""Many conversions, one case per line: each gets one line in answer, in the same order.

A case is ``{"id", "from", "to", "model", "request"}``; its fields win over the flags. A case that cannot be
converted gets an error, and the rest are converted. Nothing is kept from one line to the next.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct

from segue.conversation.json_text import read_json
from segue.errors import SegueError, TranscriptError, UsageError
from segue.interop.convert import Converted, write_request
from segue.interop.source import AUTO, read_request, target_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENCODER = msgspec.json.Encoder()
_MISSING: Any = msgspec.UNSET


@final
class Flags(Struct, frozen=True, kw_only=True):
    """The defaults for every case that does not set them itself."""

    to: str = ""
    source: str = AUTO
    model: str = ""
    strict: bool = False


@final
class _Case(Struct, frozen=True):
    id: Any = None
    source: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    model: str | None = None
    strict: bool | None = None
    request: Any = _MISSING


_CASE = msgspec.json.Decoder(_Case)


def answers(lines: Iterable[bytes], flags: Flags) -> Iterator[bytes]:
    """One line for each line, without the line's end. Blank lines are no cases."""
    for number, line in enumerate(lines, 1):
        if not line.isspace() and line:
            yield answer(line, flags, number)


def answer(line: bytes, flags: Flags, number: int) -> bytes:
    case_id: Any = None
    try:
        case = _read(line, number)
        case_id = case.id
        return _success(case_id, _convert(case, flags))
    except SegueError as error:
        return _failure(case_id if case_id is not None else _id_in(line), error)
    except Exception as error:  # whatever one case breaks, the next ones still get their answers
        internal = SegueError(
            f"The conversion broke: {type(error).__name__}.", code="internal", hint="Please report this case."
        )
        return _failure(case_id, internal)


def _read(line: bytes, number: int) -> _Case:
    try:
        try:
            return _CASE.decode(line)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return msgspec.convert(read_json(line), _Case)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise TranscriptError(
            what,
            code="bad_case",
            path=where.strip("`.") or f"line {number}",
            hint="See segue convert --help.",
        ) from error


def _convert(case: _Case, flags: Flags) -> Converted:
    to = case.to or flags.to
    if not to:
        raise UsageError(
            "The case has no target.",
            code="target_missing",
            path="to",
            hint='Give "to" in the line, or --to for all lines.',
        )
    if case.request is _MISSING:
        raise TranscriptError(
            "The case holds no request.",
            code="request_missing",
            path="request",
            hint='Give the body as "request".',
        )
    to = target_name(to)
    model = case.model or flags.model
    strict = flags.strict if case.strict is None else case.strict
    source = read_request(case.request, case.source or flags.source, model=model, to=to)
    return write_request(source, to=to, model=model, strict=strict)


def _success(case_id: Any, converted: Converted) -> bytes:
    fields: dict[str, Any] = {
        "id": case_id,
        "ok": True,
        "request": msgspec.Raw(converted.body),
        "repairs": [repair.as_dict() for repair in converted.repairs],
    }
    if converted.notes:
        fields["notes"] = converted.notes
    return _line(fields)


def _failure(case_id: Any, error: SegueError) -> bytes:
    return _line({"id": case_id, "ok": False, "error": error.as_dict()})


def _line(fields: dict[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(fields)
    except UnicodeEncodeError:  # an id or a tool's name with a lone surrogate
        return json.dumps(fields, separators=(",", ":"), default=msgspec.json.decode).encode()


def _id_in(line: bytes) -> Any:
    """The id of a case whose other fields are wrong."""
    try:
        parsed = read_json(line)
    except TranscriptError:
        return None
    return parsed.get("id") if isinstance(parsed, dict) else None
