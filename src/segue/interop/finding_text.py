"""The words for a repair in a finding: what is wrong, and what the repair does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segue.transcript.repairs import SENTENCES

if TYPE_CHECKING:
    from segue.transcript.repairs import Kind, Repair

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
