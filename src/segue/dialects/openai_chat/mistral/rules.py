"""What Mistral demands, and how it asks for it."""

from __future__ import annotations

from segue.conversation.blocks import Origin
from segue.dialects.openai_chat.rules import Variant
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

VARIANT = Variant(
    rules=MISTRAL,
    thoughts="",
    cites=True,
    silence="empty",
    result_names=True,  # MIS-09
    schema="mistral",
    description_needed=True,
    strict="any",
    required="any",  # MIS-12
    options={"temperature": "temperature", "top_p": "top_p", "seed": "random_seed", "stop": "stop"},
    # MIS-V24: the hosted models are said to take more, and the schema that the provider publishes takes no more.
    most={"temperature": 1},
    counts_asked=False,  # MIS-08
)
