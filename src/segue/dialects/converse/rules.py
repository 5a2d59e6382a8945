"""What Converse demands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
from segue.transcript.rules import IdGrammar, MediaRules, NameGrammar, ReasoningRules, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.dialects.card import ModelCard

NAME: Final = "converse"
IMAGE_FORMATS: Final[Mapping[str, str]] = {  # BDR-16
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
DOCUMENT_FORMATS: Final[Mapping[str, str]] = {  # BDR-16
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_SHOWN = frozenset(IMAGE_FORMATS) | frozenset(DOCUMENT_FORMATS)

CONVERSE: Final = Rules(
    target=Origin(NAME),
    home="bedrock",
    ids=IdGrammar(prefix="tooluse_", max_length=64),  # BDR-07: within the older, narrower grammar
    names=NameGrammar(),  # BDR-07
    # BDR-14. Some models behind it bind a signature to the prefix; an unknown one is taken for such.
    reasoning=ReasoningRules(replay="sealed", bound=True, last=False),
    media=MediaRules(
        user=_SHOWN,
        tool=_SHOWN,
        urls=frozenset({"image", "document"}),
        schemes=("s3://",),
        in_errors=False,  # some models behind it take only text there
    ),
    alternates=True,  # BDR-01
    opens_with_user=True,  # BDR-01
    ends_with_model=False,
    ends_with_space=False,  # BDR-06
    argument_levels=100,
    calls_last=True,
    blank_text=False,  # BDR-06
    instructions="user",  # BDR-11: a role of its own on some models only
)

CLIENT: Final = ClientWire(
    rules=CONVERSE,
    capsule="signature",
    cites=frozenset({"url", "place", "document"}),
    calls_last=True,
    arguments="object_in_pieces",  # BDR-09
)

Place = Literal["system", "tools", "messages"]
CACHE_POINTS: Final[Mapping[str, frozenset[Place]]] = {  # BDR-13
    "claude": frozenset({"system", "tools", "messages"}),
    "nova": frozenset({"system", "messages"}),
    "other": frozenset(),
}
"""Where a family of models takes cache points."""
MOST_CACHE_POINTS: Final = 4


def takes_cache_points(card: ModelCard, place: Place) -> bool:
    """Whether points that came stay. Of a family that is not known, its client knows more than we do."""
    places = CACHE_POINTS.get(card.family)
    return places is None or place in places


def caches(card: ModelCard, place: Place) -> bool:
    """Whether points may be added."""
    return place in CACHE_POINTS.get(card.family, ())
