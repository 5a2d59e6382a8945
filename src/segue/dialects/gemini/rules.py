"""What Gemini demands."""

from __future__ import annotations

import string

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import SAFE_CHARACTERS, IdGrammar, MediaRules, NameGrammar, ReasoningRules, Rules

NAME = "gemini"
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})

GEMINI = Rules(
    target=Origin(NAME),
    home="gemini",
    ids=IdGrammar(max_length=64),  # GEM-16
    names=NameGrammar(string.ascii_letters + "_", SAFE_CHARACTERS + ".:"),  # GEM-31
    reasoning=ReasoningRules(
        replay="plain",  # GEM-25: its own thoughts may come back
        call_seal="skip_thought_signature_validator",  # GEM-21, GEM-22
        call_seal_field="thoughtSignature",
    ),
    media=MediaRules(  # GEM-41, GEM-42
        user=_IMAGES | {"application/pdf", "text/plain", "audio/*"},
        tool=_IMAGES | {"application/pdf", "text/plain"},
        model=_IMAGES,
        urls=frozenset({"image", "document"}),
        schemes=("https://",),
        urls_in_results=False,
        titles=False,
    ),
    argument_levels=40,  # Protocol Buffers stop at 100 messages in one another, two for each level of a Struct
    alternates=True,  # GEM-02, GEM-09
    calls_after_text=False,  # GEM-02
    opens_with_user=True,  # GEM-02, GEM-09
    ends_with_model=False,  # GEM-07
    blank_text=False,  # GEM-10
    instructions="user",  # GEM-40
)

CLIENT = ClientWire(
    rules=GEMINI,
    plain_reasoning=True,  # GEM-25
    media=_IMAGES | {"audio/*"},
    cites=frozenset({"url", "document"}),
    call_ids=False,  # GEM-16
    arguments="object",  # GEM-52
)
