"""A repair told as a patient hears it: what is wrong, and what mending it does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segue.transcript.repairs import SENTENCES

if TYPE_CHECKING:
    from segue.transcript.repairs import Kind, Repair

_TOLD: Final[dict[Kind, tuple[str, str]]] = {
    "speaker_corrected": ("said by the wrong speaker", "moved to the one it belongs to"),
    "duplicate_call_dropped": ("the same call again", "left out"),
    "result_superseded": ("another result for the same call", "left out"),
    "message_dropped": ("nothing in this message can be said to the target", "left out"),
    "call_recovered": ("call missing from the history", "taken from the ledger"),
    "result_recovered": ("result missing from the history", "taken from the ledger"),
    "result_moved": ("result apart from its call", "moved next to it"),
    "calls_reordered": ("something follows the calls of this message", "the calls are moved to its end"),
    "name_replaced": ("tool name that the target does not take", "respelled"),
    "reasoning_dropped": ("reasoning that the target does not take back", "left out"),
    "seal_dropped": ("a sealed payload that only its origin can open", "left out"),
    "media_moved": ("media in a tool result", "moved into a user message behind it"),
    "media_described": ("media that the target cannot see here", "described in words"),
    "blank_text": ("blank text", "not sent"),
    "bridged": ("a user message right after tool results", "a short model message is put between"),
    "instruction_folded": ("a system note in mid-conversation", "said as user text"),
    "schema_reduced": ("a tool's schema that the target cannot be told in full", "told as far as possible"),
    "option_not_sent": ("an option that the target does not know", "left out"),
}
"""Where the repair's own sentence does not name both."""

_REMEDY = re.compile(r"[:;] ")


def fault_text(repair: Repair) -> str:
    told = _TOLD.get(repair.kind)
    return told[0] if told is not None else _REMEDY.split(SENTENCES[repair.kind], maxsplit=1)[0]


def repair_text(repair: Repair) -> str:
    told = _TOLD.get(repair.kind)
    done = told[1] if told is not None else _REMEDY.split(SENTENCES[repair.kind], maxsplit=1)[-1]
    return f"{done}; {repair.decision}" if repair.decision else done
