"""A conversation replaced by one sealed item: at a trigger in the input, or by an endpoint of its own (RESP-52)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.openai_responses import seals
from segue.emulators.openai_responses.items import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.emulators.rules import Context


TRIGGER = "compaction_trigger"


def is_asked_for(items: Sequence[Mapping[str, Any]]) -> bool:
    return bool(items) and type_of(items[-1]) == TRIGGER


def compacted(items: Sequence[Mapping[str, Any]], context: Context) -> dict[str, Any]:
    """The one output item that stands for all of these."""
    text = msgspec.json.encode([item for item in items if type_of(item) != TRIGGER]).decode()
    number = hashlib.sha256(context.reply_id.encode()).hexdigest()[:32]
    return {"id": f"cmp_{number}", "type": "compaction", "encrypted_content": seals.issue(text, context)}
