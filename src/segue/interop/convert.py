"""A request of one dialect converted to another: read, adopt, plan; one, or many with a case per line.

A case is ``{"id", "from", "to", "model", "request"}``; its fields win over the flags. Each gets one line in answer,
in the same order. A case that cannot be converted gets an error, and the rest are converted. Nothing is kept from one
line to the next.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.conversation.document import encode_document
from segue.conversation.json_safe import ensure_json_safe
from segue.conversation.json_text import read_json
from segue.dialects.card import UNKNOWN
from segue.dialects.plan import Plan, plan
from segue.dialects.registry import DIALECTS
from segue.dialects.requests.client_bytes import spelled_as
from segue.dialects.server_side.references import Reference, references_in
from segue.errors import SegueError, TranscriptError, UsageError
from segue.interop.source import AUTO, CONVERSATION, SourceRequest, read_request, target_name
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from segue.conversation.message import Conversation
    from segue.conversation.options import Options


NOT_HELD = "not_held"
"""The code of the error for a request that refers to messages which it does not hold."""
LOSSY = "would_lose"
"""The code of the error with which a strict conversion refuses to lose something."""

_MODEL_IN_ADDRESS = frozenset({"gemini"})
"""Dialects whose requests name the model in the URL and not in the body."""


@final
class Converted(Struct, frozen=True, kw_only=True):
    """A complete request body for the target, and all that was changed on the way."""

    body: bytes
    source: str
    to: str
    model: str
    repairs: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()
    """What was assumed because it was not given."""

    @property
    def request(self) -> Any:
        """The body as parsed JSON."""
        return msgspec.json.decode(self.body)


def convert(
    request: Mapping[str, Any] | list[Any] | bytes | str,
    *,
    to: str,
    source: str = AUTO,
    model: str = "",
    strict: bool = False,
) -> Converted:
    """Convert a request (a body or a bare list of messages in any dialect, or a conversation document) to another dialect.

    `strict` refuses if the target would get less than the source holds.
    """
    to = target_name(to)
    parsed = read_json(request) if isinstance(request, (bytes, str)) else ensure_json_safe(request)
    return write_request(read_request(parsed, source, model=model, to=to), to=to, model=model, strict=strict)


def write_request(source: SourceRequest, *, to: str, model: str = "", strict: bool = False) -> Converted:
    """Write what was read in a dialect, or as a document."""
    source = source.for_wire(to)
    conversation, adopted = source.adopted()
    if to == CONVERSATION:
        body = encode_document(
            conversation,
            source.ledger,
            tools=source.tools,
            options=structs.replace(source.options, model=model or source.options.model),
            dialect=source.dialect,
        )
        return Converted(body=body, source=source.dialect, to=to, model=model, repairs=adopted)
    model, notes = choose_model(source, to, model)
    planned = plan_request(source, conversation, to=to, model=model)
    repairs = (*adopted, *planned.repairs)
    if strict:
        _refuse_loss(repairs, to)
    return Converted(
        body=_as_it_came(planned.body, source, to),
        source=source.dialect or CONVERSATION,
        to=to,
        model=model,
        repairs=repairs,
        notes=notes,
    )


def _as_it_came(planned: bytes, source: SourceRequest, to: str) -> bytes:
    """For its own wire a request keeps its order of keys, so that writing it again changes no byte."""
    if source.body is None or source.dialect != to:
        return planned
    came = msgspec.json.encode(ensure_json_safe(source.body))
    return spelled_as(planned, came, DIALECTS[to].messages_field)


def plan_request(source: SourceRequest, conversation: Conversation, *, to: str, model: str) -> Plan:
    """The request that a dialect's own provider would be sent. No model: the careful rules."""
    references = _references(source) if to != source.dialect else []
    _refuse_part(references, to)
    options, unsent = _options_for(source, to, model)
    planned = plan(
        conversation,
        source.ledger,
        target=Origin(to, model=model),
        card=card_for_model(model, to) if model else UNKNOWN,
        tools=source.tools,
        options=options,
    )
    held = _lost_files(references, planned.body, to)
    return structs.replace(planned, repairs=(*planned.repairs, *unsent, *held))


def _references(source: SourceRequest) -> list[Reference]:
    """What the request refers to and does not hold."""
    own = source.options.own
    fields = source.body or ({**own.form, **own.fields} if own is not None else {})
    table = DIALECTS[source.dialect].server.references if source.dialect else ()
    return references_in(fields, table, source.dialect)


def _lost_files(references: list[Reference], planned: bytes, to: str) -> list[Repair]:
    """Of each file that the target gets neither itself nor by its id."""
    files = [found for found in references if found.stands_for == "file"]
    if not files:
        return []
    known = references_in(msgspec.json.decode(planned), DIALECTS[to].server.references, to)
    sent = {found.name for found in known}
    return [
        Repair("fields_dropped", to, found.path, decision=f"{found.name}, which only its provider holds")
        for found in files
        if found.name not in sent
    ]


def _refuse_part(references: list[Reference], to: str) -> None:
    """A request that is only the end of a conversation means something to the provider alone that holds the rest."""
    for found in references:
        if found.stands_for in ("history", "summary"):
            raise TranscriptError(
                f"It refers to a part of the conversation that only the provider holds, and {to} would not get that.",
                code=NOT_HELD,
                path=found.path,
                hint=found.refusal.hint,
            )


def choose_model(source: SourceRequest, to: str, model: str) -> tuple[str, tuple[str, ...]]:
    """The model to name, and notes about the choice."""
    if model:
        return model, ()
    if source.dialect == to and source.options.model:
        return source.options.model, ()
    if to in _MODEL_IN_ADDRESS:
        return "", ()
    chosen = default_model(to)
    return chosen, (f'No model was named; the request names "{chosen}", the default for {to}.',)


def _options_for(source: SourceRequest, to: str, model: str) -> tuple[Options, tuple[Repair, ...]]:
    """The options as the target gets them: another dialect's own fields mean nothing to it."""
    options = structs.replace(source.options, model=model)
    if source.dialect == to or not options.extra:
        return options, ()
    unsent = tuple(
        Repair("option_not_sent", to, name, decision=f"it belongs to {source.dialect or 'another dialect'}")
        for name in options.extra
    )
    return structs.replace(options, extra=None), unsent


def _refuse_loss(repairs: tuple[Repair, ...], to: str) -> None:
    lost = [repair for repair in repairs if repair.lossy or repair.kind == "option_not_sent"]
    if not lost:
        return
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    raise TranscriptError(
        f"{to} would get less than the request holds: {lost[0]}{more}.",
        code=LOSSY,
        path=lost[0].path,
        hint="Omit --strict to convert all the same; the source keeps everything.",
    )


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
