"""What OpenAI Responses demands."""

from __future__ import annotations

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import IdGrammar, MediaRules, NameGrammar, ReasoningRules, Rules

NAME = "openai_responses"
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})

OPENAI_RESPONSES = Rules(
    target=Origin(NAME),
    home="openai",
    ids=IdGrammar(max_length=64),  # RESP-20
    names=NameGrammar(),  # RESP-30: 128 by the specification, 64 everywhere else
    # RESP-40, RESP-41: encrypted content, never plain. RESP-44: an item that is known by its id needs its thought.
    reasoning=ReasoningRules(replay="sealed", item_id="id"),
    media=MediaRules(user=_SHOWN, tool=_SHOWN, urls=frozenset({"image", "document"})),  # RESP-14
    instructions="inline",  # RESP-01
)

CLIENT = ClientWire(
    rules=OPENAI_RESPONSES,
    reply_prefix="resp_",
    capsule="encrypted",  # RESP-45: without it, a thought that comes back is looked for and not found
    media=frozenset({"image/*"}),
    cites=frozenset({"url"}),
    empty=True,
    cancelled=True,
)
