"""What Mistral demands."""

from __future__ import annotations

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import BRIDGE, NINE_CHARACTERS, MediaRules, NameGrammar, ReasoningRules, Rules

NAME = "mistral"

MISTRAL = Rules(
    target=Origin(NAME),
    home="mistral",
    ids=NINE_CHARACTERS,  # MIS-01
    names=NameGrammar(),  # MIS-V20
    reasoning=ReasoningRules(),  # MIS-08, MIS-10: only thinking models take it, as chunks of their own
    media=MediaRules(  # MIS-15
        user=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}), urls=frozenset({"image"})
    ),
    alternates=True,  # MIS-V05
    opens_with_user=True,  # MIS-V03
    ends_with_model=False,  # MIS-04
    calls_last=True,
    calls_after_calls=False,  # MIS-05
    bridge=BRIDGE,  # MIS-02
    blank_text=False,  # MIS-06
    instructions="user",  # MIS-14
)

CLIENT = ClientWire(rules=MISTRAL)  # MIS-10: models that do not think take no thoughts back
