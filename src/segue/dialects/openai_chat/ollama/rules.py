"""What Ollama's own API demands: little itself, more through the chat templates behind it."""

from __future__ import annotations

from segue.conversation.blocks import Origin
from segue.dialects.openai_chat.rules import Variant
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import SAFE_CHARACTERS, IdGrammar, MediaRules, NameGrammar, ReasoningRules, Rules

NAME = "ollama"
_NAMES = SAFE_CHARACTERS + ".:/"

OLLAMA = Rules(
    target=Origin(NAME),
    home="ollama",
    ids=IdGrammar(max_length=64),  # OLL-05
    names=NameGrammar(_NAMES, _NAMES, 128),  # OLL-17: no rule of its own
    reasoning=ReasoningRules(replay="plain"),  # OLL-04
    media=MediaRules(
        user=frozenset({"image/png", "image/jpeg", "image/webp"})
    ),  # OLL-04: content, never by address
    argument_levels=100,  # what the template engines behind it render
    alternates=True,  # OLL-03: the templates' rule
    opens_with_user=True,  # OLL-03: "no user query found in messages"
    ends_with_model=False,  # a model's last message would be continued, not answered
    calls_last=True,
    blank_text=False,
    instructions="user",
)

CLIENT = ClientWire(
    rules=OLLAMA,
    plain_reasoning=True,  # OLL-04
    call_ids=False,  # OLL-05
    arguments="object",  # OLL-02
)

VARIANT = Variant(rules=OLLAMA, schema="ollama", description_needed=True, strict="never", options={})
