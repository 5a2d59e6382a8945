"""What a provider would refuse in a transcript, and what repairing it would do.

A finding is a repair that rendering for the target would make, together with the words in which the provider refuses
the transcript as it is (refusals.toml). What the provider takes as it is, and what only a switch to it would change,
are notes.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections import Counter
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, final

import msgspec
from msgspec import Struct, field, structs

from segue.conversation.blocks import ToolCall
from segue.conversation.message import Conversation
from segue.dialects.registry import DIALECTS, NAMES
from segue.errors import SegueError, TranscriptError
from segue.interop.convert import choose_model, plan_request, write_request
from segue.interop.repair import repair_conversation
from segue.interop.source import CONVERSATION, SourceRequest
from segue.transcript.repairs import FAULTS, SENTENCES, Repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.interop.agents.repaired_session import RepairedSession
    from segue.interop.agents.session_draft import SessionFault
    from segue.transcript.repairs import Kind


@final
class KnownRefusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of a provider and its words when the rule is broken."""

    kind: str
    code: str
    text: str
    status: int = 400
    when: str = ""
    unless: str = ""
    foreign: bool = False

    def fits(self, kind: str, decision: str, *, foreign: bool) -> bool:
        return (
            kind == self.kind
            and self.when in decision
            and not (self.unless and self.unless in decision)
            and (foreign or not self.foreign)
        )

    def worded(self, *, call_id: str, place: str) -> str:
        return self.text.replace("{id}", call_id or "…").replace("{place}", place)


@final
class ProviderRefusals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the providers of some dialects refuse."""

    dialects: tuple[str, ...]
    refusals: tuple[KnownRefusal, ...] = field(name="refusal")
    place: str = ""
    ids: str = ""
    """Pattern of the call ids that are taken; empty: all are."""
    unique_ids: bool = False

    def refusal(self, kind: str, decision: str = "", *, foreign: bool = False) -> KnownRefusal | None:
        """The answer to what a repair of this kind would change; None if the provider accepts it as it is."""
        return next(
            (refusal for refusal in self.refusals if refusal.fits(kind, decision, foreign=foreign)), None
        )


@lru_cache(maxsize=1)
def groups() -> tuple[ProviderRefusals, ...]:
    table = tomllib.loads(files(__package__).joinpath("refusals.toml").read_text("utf-8"))
    return tuple(msgspec.convert(group, ProviderRefusals) for group in table.values())


@lru_cache(maxsize=64)
def provider_refusals(dialect: str) -> ProviderRefusals:
    """All that is known about a dialect: rules of fewer dialects come first."""
    own = sorted(
        (group for group in groups() if dialect in group.dialects), key=lambda group: len(group.dialects)
    )
    return ProviderRefusals(
        dialects=(dialect,),
        refusals=tuple(refusal for group in own for refusal in group.refusals),
        place=next((group.place for group in own if group.place), "messages[{n}]"),
        ids=next((group.ids for group in own if group.ids), ""),
        unique_ids=any(group.unique_ids for group in own),
    )


Level = Literal["error", "note"]


@final
class Finding(Struct, frozen=True, kw_only=True):
    """One thing about a transcript that a target would refuse, or that a switch to it would change."""

    level: Level
    code: str
    """The rule's id; the kind of repair where no provider's rule is broken."""
    kind: str
    place: str
    what: str
    provider_error: str = ""
    status: int = 0
    program: str = ""
    """What the program whose session it is does with it; empty for a request."""
    fix: str = ""
    call_ids: tuple[str, ...] = ()
    lossy: bool = False


@final
class Diagnosis(Struct, frozen=True, kw_only=True):
    """All findings for one target."""

    target: str
    model: str
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> int:
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def notes(self) -> int:
        return len(self.findings) - self.errors


@final
class Examination(Struct, frozen=True, kw_only=True):
    """A transcript as every target sees it."""

    dialect: str
    form: str
    messages: int
    calls: int
    diagnoses: tuple[Diagnosis, ...]

    @property
    def clean(self) -> bool:
        return not any(diagnosis.errors for diagnosis in self.diagnoses)

    def as_dict(self) -> dict[str, Any]:
        return {
            "dialect": self.dialect,
            "form": self.form,
            "messages": self.messages,
            "calls": self.calls,
            "clean": self.clean,
            "targets": [
                {
                    "target": diagnosis.target,
                    "model": diagnosis.model,
                    "errors": diagnosis.errors,
                    "notes": diagnosis.notes,
                    "findings": [structs.asdict(finding) for finding in diagnosis.findings],
                }
                for diagnosis in self.diagnoses
            ],
        }


def examine(
    source: SourceRequest,
    targets: Sequence[str] = (),
    *,
    model: str = "",
    lines: Sequence[int] = (),
    session: RepairedSession | None = None,
) -> Examination:
    """Look at a transcript as each target would. No target: its own dialect, or all of them if it has none.

    What only a switch would change counts as an error for targets that are named, and as a note where every target
    is looked at. `session`: what its own program does with the faults of a session file.
    """
    named = tuple(targets)
    chosen = named or ((source.dialect,) if source.dialect else NAMES)
    positions = FilePositions(source, lines)
    diagnoses = tuple(
        _diagnose(source, target, model, positions, counts=target in named or target == source.dialect)
        for target in (NAMES if "all" in chosen else chosen)
    )
    if session is not None and not named:
        diagnoses = tuple(_as_resumed(diagnosis, session) for diagnosis in diagnoses)
    return Examination(
        dialect=source.dialect,
        form=source.form,
        messages=source.message_count,
        calls=sum(len(message.calls) for message in source.messages),
        diagnoses=diagnoses,
    )


def unreadable(error: TranscriptError, target: str = "") -> Examination:
    """The findings for a file that cannot be read."""
    finding = Finding(
        level="error",
        code=error.code,
        kind=error.code,
        place=error.path or "the file",
        what=error.message,
        fix=f"none: {error.hint or 'this has to be repaired by hand'}",
    )
    diagnosis = Diagnosis(target=target or "every target", model="", findings=(finding,))
    return Examination(dialect="", form="unreadable file", messages=0, calls=0, diagnoses=(diagnosis,))


def _diagnose(
    source: SourceRequest, target: str, model: str, positions: FilePositions, *, counts: bool
) -> Diagnosis:
    chosen = choose_model(source, target, model)[0]
    provider = provider_refusals(target)
    # Our own documents are rendered anew for every target, so no target sees their ids.
    found = [] if source.conversation is not None else list(_id_findings(source, provider, positions))
    source = source.for_wire(target)
    if source.dialect == target:
        found += [_form_finding(repair) for repair in source.repairs]
    try:
        repairs = _repairs(source, target, chosen)
    except TranscriptError as error:
        return Diagnosis(target=target, model=chosen, findings=(_unrenderable(error, provider),))
    foreign = source.dialect != target
    # The name of a call that a repair put there is no fault of the file.
    rebuilt = {repair.path for repair in repairs if repair.kind == "call_reconstructed"}
    found += [
        _finding(repair, provider, positions, foreign=foreign)
        for repair in repairs
        if repair.kind != "id_replaced" and not (repair.kind == "name_replaced" and repair.path in rebuilt)
    ]
    if source.session:
        found = [_as_stored(finding) for finding in found if finding.kind != "ended"]
    if not counts or source.conversation is not None:
        found = [_as_note_unless_broken(finding) for finding in found]
    return Diagnosis(target=target, model=chosen, findings=tuple(found))


def _as_resumed(diagnosis: Diagnosis, session: RepairedSession) -> Diagnosis:
    """The findings as the program meets them that resumes the session: some it heals, and some it hides."""
    known = {fault.kind for fault in session.faults}
    words = {finding.kind: finding for finding in diagnosis.findings if finding.provider_error}
    faults = [_fault_finding(fault, words.get(fault.kind)) for fault in session.faults]
    others = [
        structs.replace(finding, level="note", program=healed, fix="")
        if (healed := session.healed.get(finding.kind))
        else finding
        for finding in diagnosis.findings
        if finding.kind not in known
    ]
    return structs.replace(diagnosis, findings=(*faults, *others))


def _fault_finding(fault: SessionFault, refused: Finding | None) -> Finding:
    """`refused`: a finding that has the provider's words for such a fault."""
    tells = refused is not None and fault.effect == "refused"
    return Finding(
        level="note" if fault.effect == "healed" else "error",
        code=refused.code if tells and refused is not None else fault.kind,
        kind=fault.kind,
        place=f"line {fault.line}",
        what=fault.what,
        provider_error=refused.provider_error if tells and refused is not None else "",
        status=refused.status if tells and refused is not None else 0,
        program=fault.then,
        fix=fault.fix,
        call_ids=fault.call_ids,
    )


def _as_stored(finding: Finding) -> Finding:
    """A finding about a session file: it ends with a reply, and its client decides what reasoning it sends back."""
    return structs.replace(finding, level="note") if finding.kind == "reasoning_dropped" else finding


_BROKEN = frozenset(kind for kind, fault in FAULTS.items() if fault != "projection") - {"calls_reordered"}
"""What is wrong for every target. Text behind a call is not: only some targets want the calls last."""


def _as_note_unless_broken(finding: Finding) -> Finding:
    """A finding where only what is broken in itself counts."""
    if finding.level == "error" and finding.kind not in _BROKEN:
        return structs.replace(finding, level="note")
    return finding


def _repairs(source: SourceRequest, target: str, model: str) -> tuple[Repair, ...]:
    # Not adopted first: so the repairs name the messages by their positions in the file.
    conversation = source.conversation or Conversation(source.messages, source.system)
    return plan_request(source, conversation, to=target, model=model).repairs


def _unrenderable(error: TranscriptError, provider: ProviderRefusals) -> Finding:
    refusal = provider.refusal(error.code)
    return Finding(
        level="error",
        code=refusal.code if refusal is not None else error.code,
        kind=error.code,
        place=error.path or "messages",
        what=error.message,
        provider_error=refusal.text if refusal is not None else "",
        status=refusal.status if refusal is not None else 0,
        fix=error.hint or "this cannot be repaired",
    )


_PATH = re.compile(r"messages\[(\d+)\]")


def _finding(
    repair: Repair, provider: ProviderRefusals, positions: FilePositions, *, foreign: bool = False
) -> Finding:
    refusal = provider.refusal(repair.kind, repair.decision, foreign=foreign)
    at = _PATH.match(repair.path)
    index = positions.index(int(at[1])) if at else 0
    call_ids = tuple(call_id for call_id in repair.call_ids if call_id)
    return Finding(
        level="note" if refusal is None else "error",
        code=repair.kind if refusal is None else refusal.code,
        kind=repair.kind,
        place=positions.describe(int(at[1])) if at else repair.path,
        what=fault_text(repair),
        provider_error=""
        if refusal is None
        else refusal.worded(call_id=", ".join(call_ids), place=provider.place.replace("{n}", str(index))),
        status=0 if refusal is None else refusal.status,
        fix=repair_text(repair),
        call_ids=call_ids,
        lossy=repair.lossy,
    )


def _form_finding(repair: Repair) -> Finding:
    """What the file's own provider refuses before it looks at what the request means."""
    return Finding(
        level="error",
        code=repair.kind,
        kind=repair.kind,
        place=repair.path,
        what=fault_text(repair),
        fix=repair_text(repair),
        lossy=repair.lossy,
    )


def _id_findings(
    source: SourceRequest, provider: ProviderRefusals, positions: FilePositions
) -> Iterator[Finding]:
    """Ids that the target would refuse, each reported once."""
    legal = re.compile(provider.ids, re.DOTALL) if provider.ids else None
    seen: Counter[str] = Counter()
    for index, message in enumerate(source.messages):
        for block in message.blocks:
            if type(block) is not ToolCall:
                continue
            seen[block.native_id] += 1
            if legal is not None and legal.match(block.native_id) is None:
                if seen[block.native_id] == 1:
                    yield _id_finding(block, "is not legal there", index, provider, positions)
            elif provider.unique_ids and seen[block.native_id] == 2:
                yield _id_finding(block, "is used again", index, provider, positions)


def _id_finding(
    call: ToolCall, fault: str, message: int, provider: ProviderRefusals, positions: FilePositions
) -> Finding:
    repair = Repair(
        "id_replaced", "", f"messages[{message}]", (call.native_id,), decision=f'"{call.native_id}" {fault}'
    )
    found = _finding(repair, provider, positions)
    return structs.replace(
        found,
        what=f'call id "{call.native_id}" {fault}',
        fix="a legal id is given to the call and its result",
    )


def fix_transcript(
    source: SourceRequest, targets: Sequence[str] = (), *, model: str = ""
) -> tuple[str, bytes]:
    """The transcript without faults, and the form it is written in.

    One target: its request body. Several: a document of ours, which is good for all. None, or all: the form it
    came in.
    """
    named = tuple(dict.fromkeys(targets))
    if "all" in named or not named:
        to = source.dialect if source.conversation is None and source.dialect else CONVERSATION
    else:
        to = named[0] if len(named) == 1 else CONVERSATION
    if to != CONVERSATION:
        # Arguments are sent as they were written; in a repaired file they are written like the rest.
        body = json.loads(write_request(source, to=to, model=model).body)
        if source.bare and to == source.dialect and to not in named:
            body = body[DIALECTS[to].messages_field]
        return to, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    conversation = repair_conversation(
        source.conversation or Conversation(source.messages, source.system), source.ledger
    )
    return to, write_request(
        structs.replace(source, conversation=conversation, ledger=None), to=to, model=model
    ).body


_LONGEST = 20_000
"""Beyond this many messages, finding a place would take longer than it helps."""


@final
class FilePositions:
    """The positions of one source's messages."""

    def __init__(self, source: SourceRequest, lines: Sequence[int] = ()) -> None:
        self._source = source
        self._lines = lines
        self._field = DIALECTS[source.dialect].messages_field if source.body else "messages"
        parts: Any = (source.body or {}).get(self._field)
        self._length = len(parts) if isinstance(parts, list) else 0
        self._decoded_count = cache(self._count)

    def index(self, message: int) -> int:
        """The position in the file's own list of the part that holds a decoded message."""
        if not 0 < self._length <= _LONGEST:
            return message
        return bisect_right(range(1, self._length), message, key=self._decoded_count)

    def describe(self, message: int) -> str:
        """The place for people: a path into the file, and the line where it has lines."""
        index = self.index(message)
        path = f"{self._field}[{index}]"
        return f"line {self._lines[index]}, {path}" if index < len(self._lines) else path

    def _count(self, parts: int) -> int:
        try:
            return self._source.decoded_count(parts)
        except SegueError:
            return parts


_WORDS: Final[dict[Kind, tuple[str, str]]] = {
    "speaker_corrected": ("written by the wrong speaker", "moved to the one it belongs to"),
    "duplicate_call_dropped": ("the same call again", "dropped"),
    "result_superseded": ("another result for the same call", "dropped"),
    "results_joined": ("another result for the same call", "sent together with the first"),
    "message_dropped": ("nothing in this message can be sent to the target", "dropped"),
    "call_recovered": ("call missing from the history", "taken from the ledger"),
    "result_recovered": ("result missing from the history", "taken from the ledger"),
    "result_moved": ("result apart from its call", "moved next to it"),
    "calls_reordered": ("something follows the calls of this message", "the calls are moved to its end"),
    "calls_joined": ("calls in a second message of the model", "sent in one message with the first"),
    "name_replaced": ("tool name that the target does not accept", "changed to one that it accepts"),
    "reasoning_dropped": ("reasoning that the target does not take back", "dropped"),
    "seal_dropped": ("a signature that only its own provider can read", "dropped"),
    "media_moved": ("media in a tool result", "moved into a user message after it"),
    "document_as_text": ("a document that the target does not take here", "sent as text"),
    "media_described": ("media that the target cannot see here", "described in words"),
    "blank_text": ("blank text", "not sent"),
    "bridged": ("a user message right after tool results", "a short model message is put between"),
    "instruction_folded": ("a system note in the middle of the conversation", "sent as user text"),
    "schema_reduced": ("a tool's schema that the target does not support in full", "simplified"),
    "fields_dropped": ("fields that only their own API has", "dropped"),
    "hints_dropped": ("marks that only help the provider of their own API", "dropped"),
    "tool_not_offered": ("a tool that the target cannot have", "not offered"),
    "thinking_changed": (
        "a way of thinking that the target refuses here",
        "it thinks in another way, or not until the open tool turn ends",
    ),
    "option_not_sent": ("an option that the target does not know", "dropped"),
}
"""Where the repair's own sentence does not name both."""

_SEPARATOR = re.compile(r"[:;] ")


def fault_text(repair: Repair) -> str:
    words = _WORDS.get(repair.kind)
    return words[0] if words is not None else _SEPARATOR.split(SENTENCES[repair.kind], maxsplit=1)[0]


def repair_text(repair: Repair) -> str:
    words = _WORDS.get(repair.kind)
    done = words[1] if words is not None else _SEPARATOR.split(SENTENCES[repair.kind], maxsplit=1)[-1]
    return f"{done}; {repair.decision}" if repair.decision else done
