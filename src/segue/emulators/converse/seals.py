"""Signatures of thoughts: each is bound to its model, its account and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators import signatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.rules import Context

_PREFIX = "ErUB"


def sign(text: str, context: Context) -> str:
    claims = {
        "platform": "bedrock",
        "model": context.model,
        "text": signatures.digest(text),
        "reply": context.reply_id,
    }
    return signatures.seal(context.secret, claims, _PREFIX)


def is_ours(thought: Mapping[str, Any], context: Context) -> bool:
    born = signatures.unseal(context.secret, thought["signature"], _PREFIX)
    return (
        born is not None
        and born.get("platform") == "bedrock"
        and born.get("model") == context.model
        and born.get("text") == signatures.digest(thought["text"])
    )
