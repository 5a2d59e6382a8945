"""What Gemini's Interactions demand. The models are those of generateContent, so what they take is the same; the form is another."""

from __future__ import annotations

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.dialects.gemini.rules import GEMINI
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import ReasoningRules

NAME = "gemini_interactions"

GEMINI_INTERACTIONS = structs.replace(
    GEMINI,
    target=Origin(NAME),
    # INT-04: a signature is a step, before what it is for; other thoughts have none, and no stand-in for one is known.
    reasoning=ReasoningRules(replay="sealed", unsealed=True),
    media=structs.replace(GEMINI.media, urls_in_results=True),
    alternates=False,  # INT-04: steps have no roles
    calls_after_text=True,
)

CLIENT = ClientWire(
    rules=GEMINI_INTERACTIONS,
    reply_prefix="v1_",
    plain_reasoning=True,  # INT-04 (M): a thought need not be signed
    media=frozenset({"image/*", "audio/*"}),
    cites=frozenset({"url", "document"}),
    arguments="object",
    empty=True,
    cancelled=True,
)
