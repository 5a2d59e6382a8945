"""Why a prompt cache did not hold: what was expected, what the provider reported, where the request first differs, and what it cost.

A provider reads from its cache the longest beginning of a request that it has seen before. So a request is compared with the last one
that the same route got: tools come first, then the system prompt, then the messages, whatever their order in the JSON. What comes
before the first difference should have been read; what does not is lost, and the place of the difference names the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.usage import Usage
from segue.inspector.marks import CacheFacts, facts
from segue.inspector.pieces import BodyPiece, size_of, value_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.inspector.pieces import KeptPieces
    from segue.inspector.records import RequestRecord
    from segue.providers.models.prices import PriceBook

Cause: TypeAlias = Literal[
    "first request",
    "model",
    "tools",
    "system",
    "history",
    "options",
    "time to live",
    "too short",
    "unknown",
    "none",
]
_GROUPS: Final[dict[str, str]] = {
    "tools": "tools",
    "toolConfig": "tools",
    "functions": "tools",
    "system": "system",
    "instructions": "system",
    "systemInstruction": "system",
    "system_instruction": "system",
    "messages": "history",
    "input": "history",
    "contents": "history",
}
_ORDER: Final = ("tools", "system", "history")
_PASSING: Final = frozenset(
    {"stream", "metadata", "max_tokens", "max_output_tokens", "stream_options", "user", "store"}
)
"""Fields that may differ without harm to a cache."""
_CACHE_MARKS: Final = frozenset({"cache_control", "cachePoint"})
_SLACK: Final = 0.05
"""Of what was expected: so much less is no loss, for counts are estimates."""


@final
class CacheOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the cache at one request."""

    request: str
    number: int
    predicted: int | None = None
    """Tokens that should have been read; None if the provider counts none."""
    reported: int | None = None
    lost: int = 0
    cause: Cause = "none"
    said: str = ""
    place: str = ""
    """Of the first difference: `tools[17]`."""
    first_byte: int | None = None
    """Of the request in the order of the prompt, where it first differs."""
    total_bytes: int = 0
    passed: float | None = None
    """Seconds since the request before it."""
    dollars: float | None = None
    """Lost."""
    compared_to: str = ""


@final
class Difference(Struct, frozen=True):
    """Where two requests first differ, in the order of the prompt."""

    group: str
    label: str
    at: int
    """Bytes before it."""
    before: BodyPiece | None
    after: BodyPiece | None


def outcomes_of(requests: Sequence[RequestRecord], prices: PriceBook | None = None) -> list[CacheOutcome]:
    """Of each request, in order."""
    found: list[CacheOutcome] = []
    last: dict[str, RequestRecord] = {}
    for one in requests:
        if not one.route or not one.usage.input_tokens:
            continue
        found.append(_outcome(one, last.get(one.route), prices, is_first=not last))
        last[one.route] = one
    return found


def misses_of(requests: Sequence[RequestRecord], prices: PriceBook | None = None) -> dict[str, CacheOutcome]:
    """Those that lost something, by the id of the request."""
    return {outcome.request: outcome for outcome in outcomes_of(requests, prices) if outcome.lost}


def _outcome(
    one: RequestRecord, before: RequestRecord | None, prices: PriceBook | None, *, is_first: bool
) -> CacheOutcome:
    reported = one.usage.cached_tokens
    if before is None:
        model = one.route.partition("/")[2]
        said = "first request: nothing to read yet" if is_first else f"first request to {model}: cold"
        return CacheOutcome(
            request=one.id,
            number=one.number,
            predicted=0,
            reported=reported,
            cause="first request",
            said=said,
        )
    known = facts().caches.get(one.dialect, CacheFacts())
    difference = first_difference(before.pieces, one.pieces) if before.pieces and one.pieces else None
    passed = one.began - before.end
    held = _held(before)
    share = 1.0 if difference is None else difference.at / max(_prompt_bytes(before.pieces), 1)
    expected = int(held * min(share, 1.0))
    expected -= expected % known.block
    if expected < known.minimum or (known.seconds and passed > known.seconds):
        expected = 0
    lost = max(held - (reported or 0), 0) if reported is not None else 0
    if lost <= max(held * _SLACK, known.block) or held < known.minimum:
        lost = 0
    cause, said = _cause(difference, passed, known, lost)
    return CacheOutcome(
        request=one.id,
        number=one.number,
        predicted=expected if reported is not None else None,
        reported=reported,
        lost=lost,
        cause=cause,
        said=said,
        place=difference.label if difference is not None and lost else "",
        first_byte=difference.at if difference is not None and lost else None,
        total_bytes=_prompt_bytes(one.pieces),
        passed=passed,
        dollars=_lost_dollars(one, lost, prices) if prices is not None and lost else None,
        compared_to=before.id,
    )


def _held(before: RequestRecord) -> int:
    """Tokens that the cache had after a request: what it says it read and wrote, else all of it."""
    usage = before.usage
    if usage.cache_write_tokens is not None:
        return (usage.cached_tokens or 0) + usage.cache_write_tokens
    return usage.input_tokens or 0


def _cause(difference: Difference | None, passed: float, known: CacheFacts, lost: int) -> tuple[Cause, str]:
    if not lost:
        return "none", ""
    if difference is not None and difference.group != "tail":
        what: dict[str, tuple[Cause, str]] = {
            "tools": ("tools", "the tool list changed"),
            "system": ("system", "the system prompt changed"),
            "history": ("history", f"the history changed at {difference.label}"),
            "options": ("options", f"the option {difference.label} changed"),
        }
        return what.get(difference.group, ("unknown", "something changed"))
    if known.seconds and passed > known.seconds:
        return "time to live", f"{passed:.0f} s passed, and it is kept for {known.seconds} s"
    return "unknown", "the provider does not say why"


def _lost_dollars(one: RequestRecord, lost: int, prices: PriceBook) -> float | None:
    """What the lost tokens cost more than they would have, read from the cache."""
    provider, _, model = one.route.partition("/")
    written = lost if one.usage.cache_write_tokens else None
    paid = prices.cost_of(Usage(lost, 0, None, written), provider, model)
    cached = prices.cost_of(Usage(lost, 0, lost), provider, model)
    return None if paid is None or cached is None else max(paid - cached, 0.0)


def in_prompt_order(pieces: KeptPieces) -> list[tuple[str, str, BodyPiece]]:
    """Group, place and piece: tools, system prompt, messages. Then what is no part of the prompt."""
    groups: dict[str, list[tuple[str, str, BodyPiece]]] = {name: [] for name in (*_ORDER, "options")}
    for label, piece in pieces.whole():
        name = label.partition("[")[0].partition(".")[0]
        group = _GROUPS.get(name, "options")
        groups[group].append((group, label, piece))
    return [one for name in (*_ORDER, "options") for one in groups[name]]


def _prompt_bytes(pieces: KeptPieces | None) -> int:
    if pieces is None:
        return 0
    return sum(size_of(piece) for group, _, piece in in_prompt_order(pieces) if group != "options")


def first_difference(before: KeptPieces, after: KeptPieces) -> Difference | None:
    """None if all that was sent before is the beginning of what is sent now. Within a piece its first differing byte counts."""
    was, now = in_prompt_order(before), in_prompt_order(after)
    at = 0
    for name in _ORDER:
        old = [(label, piece) for group, label, piece in was if group == name]
        new = [(label, piece) for group, label, piece in now if group == name]
        for place, (label, piece) in enumerate(old):
            other = new[place] if place < len(new) else None
            if other is None or not _same(piece, other[1]):
                inner = _common(piece, other[1]) if other is not None else 0
                return Difference(name, label, at + inner, piece, other[1] if other is not None else None)
            at += size_of(piece)
        if name != "history" and len(new) > len(old):
            label, piece = new[len(old)]
            return Difference(name, label, at, None, piece)
    options = _options(was), _options(now)
    for label in options[0].keys() | options[1].keys():
        if options[0].get(label) != options[1].get(label):
            return Difference("options", label, at, options[0].get(label), options[1].get(label))
    return None


def _same(one: BodyPiece, other: BodyPiece) -> bool:
    """By what they say: spaces, the comma or bracket before it, and marks for the cache are no part of the prompt."""
    if one == other:
        return True
    if not (isinstance(one, bytes) and isinstance(other, bytes)):
        return False
    mine = _unmarked(value_in(one))
    return mine is not None and mine == _unmarked(value_in(other))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(held) for name, held in value.items() if name not in _CACHE_MARKS}
    return [_unmarked(held) for held in value] if isinstance(value, list) else value


def _options(pieces: Sequence[tuple[str, str, BodyPiece]]) -> dict[str, BodyPiece]:
    return {
        label: piece
        for group, label, piece in pieces
        if group == "options" and label.partition(".")[0] not in _PASSING
    }


def _common(one: BodyPiece, other: BodyPiece) -> int:
    """So many bytes are the same at the start of both."""
    if not (isinstance(one, bytes) and isinstance(other, bytes)):
        return 0
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
