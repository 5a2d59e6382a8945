"""What Anthropic Messages demands."""

from __future__ import annotations

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import IdGrammar, MediaRules, NameGrammar, ReasoningRules, Rules

_SHOWN = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "application/pdf",
        "text/plain",
    }
)

ANTHROPIC = Rules(
    target=Origin("anthropic"),
    home="anthropic",
    ids=IdGrammar(prefix="toolu_", max_length=64),  # ANT-24, ANT-25
    names=NameGrammar(),  # ANT-40: 128 live, 64 in the documentation
    # ANT-51, ANT-55…57. Newer models bind a signature to the prefix; an unknown one is taken for newer.
    reasoning=ReasoningRules(replay="sealed", bound=True, last=False),
    media=MediaRules(  # ANT-28, ANT-29, ANT-65
        user=_SHOWN,
        tool=_SHOWN,
        urls=frozenset({"image", "document"}),
        schemes=("https://",),
        in_errors=False,
    ),
    alternates=True,  # ANT-10
    opens_with_user=True,  # ANT-10
    ends_with_model=False,  # ANT-15
    ends_with_space=False,  # ANT-15
    argument_levels=100,  # parsers of the kind it is built with stop at 128 for the whole body
    calls_last=True,  # ANT-27
    blank_text=False,  # ANT-12, ANT-13, ANT-14
    instructions="user",  # ANT-16: allowed on some models only, and not everywhere
)

CLIENT = ClientWire(
    rules=ANTHROPIC,
    reply_prefix="msg_",
    capsule="signature",
    cites=frozenset({"place"}),  # a search's citation has a payload that only the provider can make
    calls_last=True,  # ANT-27
    arguments="object_in_pieces",  # ANT-26, ANT-72
)
