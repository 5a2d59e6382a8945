"""Typed notes of every change that is made to a request or a reply, and why.

A fault lies in one of three places: in what was stored (`canonical_state`), in how calls and results fit together
(`pairing`), or in what one target can take (`projection`).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

FaultClass: TypeAlias = Literal["canonical_state", "pairing", "projection"]

Kind: TypeAlias = Literal[
    "speaker_corrected",
    "call_reconstructed",
    "duplicate_call_dropped",
    "result_superseded",
    "results_joined",
    "value_made_safe",
    "field_corrected",
    "arguments_wrapped",
    "message_dropped",
    "call_closed",
    "call_recovered",
    "result_recovered",
    "result_moved",
    "calls_reordered",
    "calls_joined",
    "calls_split",
    "calls_as_text",
    "id_replaced",
    "name_replaced",
    "reasoning_dropped",
    "reasoning_filled",
    "seal_dropped",
    "call_seal_filled",
    "media_moved",
    "media_described",
    "document_as_text",
    "citations_as_text",
    "citations_dropped",
    "blank_text",
    "opened",
    "ended",
    "bridged",
    "instruction_folded",
    "system_folded",
    "schema_reduced",
    "choice_weakened",
    "option_not_sent",
    "thinking_changed",
    "tool_not_offered",
    "fields_dropped",
    "hints_dropped",
    "item_dropped",
    "text_dropped",
    "reply_filled",
]

_SENTENCES: dict[FaultClass, dict[Kind, str]] = {
    "canonical_state": {
        "speaker_corrected": "moved to the speaker it belongs to",
        "call_reconstructed": "result without a call: a call was put in front of it",
        "duplicate_call_dropped": "the same call again, dropped",
        "result_superseded": "another result for the same call, dropped",
        "results_joined": "different results for the same call, sent as one",
        "value_made_safe": "a value that JSON cannot express; written in a form that it can",
        "field_corrected": "a field is missing or has a value that its own API refuses; corrected",
        "arguments_wrapped": "arguments are not a JSON object; sent inside one",
        "message_dropped": "nothing in this message can be sent to the target",
    },
    "pairing": {
        "call_closed": "call without a result: closed with a neutral note",
        "call_recovered": "call missing from the history, taken from the ledger",
        "result_recovered": "result missing from the history, taken from the ledger",
        "result_moved": "result moved next to its call",
        "calls_reordered": "the target wants calls at the end of a message",
    },
    "projection": {
        "calls_joined": "the target wants calls directly after the user's message; sent together with the model's text before them",
        "calls_split": "the target takes fewer calls at once; sent one after another",
        "calls_as_text": "the target has no tools; calls and results are sent as text",
        "id_replaced": "the target's own id cannot be used again",
        "name_replaced": "tool name changed to one that the target accepts",
        "reasoning_dropped": "reasoning not sent",
        "reasoning_filled": "the target requires reasoning here; empty reasoning is sent",
        "seal_dropped": "a signature that only its own provider can read, not sent",
        "call_seal_filled": "the target requires a thought signature here; its documented placeholder is sent",
        "media_moved": "media moved out of the tool result into a user message",
        "media_described": "media that the target cannot see here, described in text",
        "document_as_text": "the target does not take this kind of document here; its text is sent",
        "citations_as_text": "the target has no field for sources; they are listed at the end of the text",
        "citations_dropped": "the target has no field for sources; they are not sent",
        "blank_text": "blank text, which the target refuses",
        "opened": "the target wants a user message first; a short one was put in front",
        "ended": "the target refuses a model's message at the end; a short user message follows",
        "bridged": "the target wants a model's message between tool results and the user",
        "instruction_folded": "a system note in the middle of the conversation, sent as user text",
        "system_folded": "the target has no system prompt; sent before the first user message",
        "schema_reduced": "the target does not support all of this tool's schema; simplified",
        "choice_weakened": "the target cannot enforce this choice of tools; a weaker one is sent",
        "option_not_sent": "the target does not know this option",
        "thinking_changed": "the target refuses this way of thinking here; it thinks in another way, or not until the open tool turn ends",
        "tool_not_offered": "a tool that the target cannot have, not offered",
        "fields_dropped": "fields that the target does not have, not sent",
        "hints_dropped": "marks that only help the provider of another API, not sent",
        "item_dropped": "an item that only the API of the model knows, not sent to the client",
        "text_dropped": "text after a call, which the client's API cannot hold there",
        "reply_filled": "a reply without any content; a short note is sent instead",
    },
}
SENTENCES = {kind: sentence for sentences in _SENTENCES.values() for kind, sentence in sentences.items()}
FAULTS = {kind: fault for fault, sentences in _SENTENCES.items() for kind in sentences}

LOSSY: frozenset[Kind] = frozenset(
    {
        "result_superseded",
        "message_dropped",
        "reasoning_dropped",
        "seal_dropped",
        "media_described",
        "citations_dropped",
        "tool_not_offered",
        "fields_dropped",
        "item_dropped",
        "text_dropped",
    }
)
"""Repairs after which the target sees less than the conversation holds. The conversation itself keeps all of it."""


class Repair(Struct, frozen=True, gc=False, omit_defaults=True):
    """One change: what, where, for whom, and why so."""

    kind: Kind
    dialect: str
    path: str = ""
    call_ids: tuple[str, ...] = ()
    """Canonical ids."""
    emitted_call_ids: tuple[str, ...] = ()
    emitted_result_ids: tuple[str, ...] = ()
    decision: str = ""
    """What was decided and on which ground."""
    reason: str = ""
    """The reason code of a synthetic completion."""

    @property
    def fault(self) -> FaultClass:
        return FAULTS[self.kind]

    @property
    def lossy(self) -> bool:
        return self.kind in LOSSY

    def __str__(self) -> str:
        ids = f" ({', '.join(self.call_ids)})" if self.call_ids else ""
        why = f": {self.decision}" if self.decision else ""
        return f"{self.path or 'transcript'}{ids}: {SENTENCES[self.kind]}{why}"

    def as_dict(self) -> dict[str, Any]:
        """All fields a diagnostic event must have, also the empty ones."""
        fields = msgspec.structs.asdict(self)
        return {
            "kind": fields.pop("kind"),
            "fault_class": self.fault,
            "lossy": self.lossy,
            "summary": SENTENCES[self.kind],
            **fields,
            "decision": self.decision or SENTENCES[self.kind],
        }
