"""A request of one dialect converted to another: read, adopt, plan."""

from __future__ import annotations

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
from segue.errors import TranscriptError
from segue.interop.source import AUTO, CONVERSATION, SourceRequest, read_request, target_name
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Mapping

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
