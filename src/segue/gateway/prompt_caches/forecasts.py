"""What should be read from a provider's cache, before it answers; and after it has: what was lost, why, and what that cost.

A request is compared with the last one that the same route got in the same conversation. Nearly always one is the beginning of the
other, which is seen by comparing memory. Only if it is not, both are taken apart.
"""

from __future__ import annotations

import re
from itertools import accumulate
from time import time
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from segue.cache_budget import SizedCache
from segue.conversation.usage import Usage
from segue.gateway.prompt_caches.facts import NOTHING_KNOWN, CacheFacts, cache_facts
from segue.gateway.prompt_caches.prompts import (
    GROUPS,
    MARK_FIELDS,
    TakenApart,
    ToolParts,
    common_bytes,
    first_difference,
    options_changed,
    taken_apart,
    weight_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.gateway.prompt_caches.prompts import PromptDifference, PromptPart
    from segue.providers.models.prices import PriceBook

CacheCause: TypeAlias = Literal[
    "first request",
    "model",
    "tools",
    "system",
    "history",
    "options",
    "marks",
    "time to live",
    "too short",
    "provider",
    "unknown",
    "none",
]
MAX_BYTES: Final = 32 << 20
MAX_TOOL_BYTES: Final = 4 << 20
_LARGEST: Final = 1 << 20
"""Bytes of both bodies together; larger ones are not taken apart while their client waits."""
_SLACK: Final = 0.05
"""Of what was held: so much less is no loss, for counts are estimates."""
_MOST_ENDS: Final = 24
_MOST_MARKS: Final = 16
_OWN_BYTES: Final = 400
_MARK: Final = re.compile(
    rb',\s*"cache_control"\s*:\s*(?:\{[^{}]*\}|null)|"cache_control"\s*:\s*(?:\{[^{}]*\}|null)\s*,|,?\s*\{\s*"cachePoint"\s*:\s*\{[^{}]*\}\s*\}'
)
_LONG_KEPT: Final = re.compile(rb'"(?:prompt_cache_retention|ttl)"\s*:\s*"(24h|12h|1h|30m)"')
_SECONDS: Final = {b"24h": 86_400, b"12h": 43_200, b"1h": 3600, b"30m": 1800}
_HISTORY_FIELDS: Final = tuple(f'"{name}":'.encode() for name, group in GROUPS.items() if group == "history")


@final
class CacheEnd(Struct, frozen=True):
    """A beginning that was kept, up to a mark."""

    tokens: int
    seconds: int
    sent: float


@final
class KeptPrompt(Struct, frozen=True):
    """The last request that a route got in a conversation."""

    body: bytes
    sent: float
    tokens: int
    """Of the whole prompt."""
    held: int
    """Of it, what the cache had after it."""
    ends: tuple[CacheEnd, ...] = ()
    """Kept at marks of earlier requests, shortest first."""
    older: KeptPrompt | None = None
    """Another beginning that the route got before this one: a request that returns to it may still find it."""
    settings: int = 0
    """So many bytes at its end surely hold no messages."""
    apart: TakenApart | None = None
    """Its parts, if it had to be taken apart: mostly the next one has to be, too."""

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        apart = self.apart.size if self.apart is not None else 0
        return len(self.body) + apart + (self.older.size if self.older is not None else 0)


@final
class CacheForecast(Struct, frozen=True, kw_only=True):
    """What should come of the cache at one request."""

    facts: CacheFacts
    key: tuple[str, str]
    body: bytes
    sent: float
    expected: int = 0
    held: int = 0
    """Tokens that the cache had after the request before this one."""
    cause: CacheCause = "none"
    """Why less is expected than was held."""
    said: str = ""
    place: str = ""
    first_byte: int | None = None
    total_bytes: int = 0
    passed: float | None = None
    ends: tuple[CacheEnd, ...] = ()
    before: bytes = b""
    older: KeptPrompt | None = None
    settings: int = 0
    apart: TakenApart | None = None
    """Both as in the prompt that is kept."""


@final
class CacheOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the cache at one request."""

    expected: int | None = None
    """Tokens that should have been read; None if the provider counts none."""
    read: int | None = None
    held: int = 0
    """Tokens that the cache had after the request before this one."""
    lost: int = 0
    cause: CacheCause = "none"
    said: str = ""
    place: str = ""
    """Of the first difference: `tools[17]`."""
    first_byte: int | None = None
    """Of the prompt, where it first differs from the one before."""
    total_bytes: int = 0
    passed: float | None = None
    """Seconds since the request before it."""
    dollars: float | None = None
    """Lost."""
    confidence: str = ""
    """How sure it is what is known of this cache: H, M, L."""
    reason: str = ""
    """The provider's own word for it."""


@final
class PromptCaches(SizedCache[tuple[str, str], KeptPrompt]):
    """The last requests of all conversations, in the memory of this process."""

    def __init__(self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time) -> None:
        super().__init__(max_bytes)
        self._clock = clock
        self.tools = ToolParts(MAX_TOOL_BYTES)
        """Of requests that were taken apart."""

    def forecast(
        self, conversation: str, route: str, dialect: str, body: bytes, *, last_route: str = ""
    ) -> CacheForecast | None:
        """None if nothing is known of this provider's cache. `last_route`: that made the last reply of the conversation."""
        facts = cache_facts(dialect, route.partition("/")[2])
        if facts is NOTHING_KNOWN or not body:
            return None
        key, now = (conversation, route), self._clock()
        kept = self.get(key)
        made = CacheForecast(facts=facts, key=key, body=body, sent=now)
        if kept is not None:
            return _compared(kept, made, self.tools)
        if last_route and last_route != route:
            other = self.get((conversation, last_route))
            held = other.tokens if other is not None else 0
            said = f"first request to {route.partition('/')[2]}: cold"
            return structs.replace(made, cause="model", said=said, held=held)
        return structs.replace(made, cause="first request", said="first request: nothing to read yet")

    def ended(self, forecast: CacheForecast, usage: Usage, prices: PriceBook | None = None) -> CacheOutcome:
        """The reply came, and says what was read. What the cache has now is remembered."""
        facts, read = forecast.facts, usage.cached_tokens
        if read is None and facts.silent and usage.input_tokens:
            read = 0
        tokens = usage.input_tokens or 0
        held = (read or 0) + (usage.cache_write_tokens or 0) if facts.marks else tokens
        self._keep(forecast, tokens, held if held >= facts.minimum else 0, read or 0)
        if read is None:
            return CacheOutcome(confidence=facts.confidence, cause=forecast.cause, said=forecast.said)
        return _outcome(forecast, usage, read, prices)

    def header(self, forecast: CacheForecast, usage: Usage | None) -> str:
        """The value of `x-segue-cache`. `usage`: if the provider has counted already."""
        outcome = None
        if usage is not None and (read := usage.cached_tokens) is not None:
            outcome = _outcome(forecast, usage, read, None)
        return _header(forecast, outcome)

    def _keep(self, forecast: CacheForecast, tokens: int, held: int, read: int) -> None:
        ends = tuple(
            [structs.replace(end, sent=forecast.sent) if end.tokens <= read else end for end in forecast.ends]
        )
        kept = KeptPrompt(
            forecast.body,
            forecast.sent,
            tokens,
            held,
            ends[-_MOST_ENDS:],
            forecast.older,
            forecast.settings,
            forecast.apart,
        )
        self.keep(forecast.key, kept, kept.size + _OWN_BYTES)


def _compared(kept: KeptPrompt, made: CacheForecast, tools: ToolParts) -> CacheForecast:
    facts, passed = made.facts, made.sent - kept.sent
    made = structs.replace(made, held=kept.held, passed=passed, before=kept.body, older=kept.older)
    lives = _lives(kept.body, facts, passed)
    settings = _settings_behind(kept, made.body, facts) if lives else None
    if settings is not None:
        last = (CacheEnd(kept.held, facts.seconds, kept.sent),) if facts.marks and kept.held else ()
        expected, ends = _whole_blocks(kept.held, facts), (*kept.ends, *last)
        return structs.replace(made, expected=expected, ends=ends, settings=settings)
    made = structs.replace(made, apart=_apart(made.body, facts, tools, kept.apart))
    found = _taken_apart(kept, made, tools)
    older = kept.older
    if older is not None and found.expected < kept.held:  # it may return to what was sent before that
        again = _taken_apart(older, made, tools)
        if again.expected > found.expected:
            found = structs.replace(found, expected=again.expected, ends=again.ends)
    return structs.replace(found, older=structs.replace(kept, older=None))


def _apart(
    body: bytes, facts: CacheFacts, tools: ToolParts, before: TakenApart | None = None
) -> TakenApart | None:
    """None if it has no parts, or is too large to be taken apart at once."""
    try:
        return taken_apart(body, facts, tools, before) if len(body) <= _LARGEST else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _taken_apart(kept: KeptPrompt, made: CacheForecast, tools: ToolParts) -> CacheForecast:
    facts = made.facts
    if len(kept.body) + len(made.body) > _LARGEST:
        return structs.replace(made, said="too large to be compared at once")
    kept_apart = kept.apart or _apart(kept.body, facts, tools, made.apart)
    if kept_apart is None or made.apart is None:
        return structs.replace(made, said="it cannot be compared")
    before, after = kept_apart.parts, made.apart.parts
    difference = first_difference(before, after)
    if facts.marks:
        return _at_marks(kept, made, before, after, difference)
    share, lives = 1.0, _lives(kept.body, facts, made.sent - kept.sent)
    if difference is not None:
        same = difference.weight if facts.block > 1 else weight_of(before[: difference.parts])
        share = same / max(difference.total, 1)
    expected = _whole_blocks(int(kept.held * share), facts) if lives else 0
    return _explained(made, expected, difference, lives=lives)


def _lives(body: bytes, facts: CacheFacts, passed: float) -> bool:
    """Whether what was kept is still there, as far as that can be known."""
    if not facts.seconds or passed <= facts.seconds:
        return True
    asked = _LONG_KEPT.search(body) if not facts.marks else None
    return asked is not None and passed <= _SECONDS[asked[1]]


def _whole_blocks(tokens: int, facts: CacheFacts) -> int:
    tokens -= tokens % facts.block
    return tokens if tokens >= facts.minimum else 0


def _explained(
    made: CacheForecast, expected: int, difference: PromptDifference | None, *, lives: bool
) -> CacheForecast:
    cause: CacheCause = "none"
    said = ""
    if expected + made.facts.block < made.held:
        cause, said = _cause(made, difference, lives=lives)
    place, first, total = "", None, 0
    if difference is not None and cause in ("tools", "system", "options", "history"):
        place, first, total = difference.place, difference.weight, difference.total
    return structs.replace(
        made, expected=expected, cause=cause, said=said, place=place, first_byte=first, total_bytes=total
    )


def _cause(
    made: CacheForecast, difference: PromptDifference | None, *, lives: bool
) -> tuple[CacheCause, str]:
    if difference is not None:
        what: dict[str, str] = {
            "tools": "the tool list changed",
            "system": "the system prompt changed",
            "options": f"the option {difference.place} changed",
            "history": f"the history changed at {difference.place}",
        }
        return difference.group, what[difference.group]
    if not lives:
        return "time to live", f"{made.passed:.0f} s passed, and it is kept for {made.facts.seconds} s"
    return "unknown", ""


# Caches that keep only what is marked


def _at_marks(
    kept: KeptPrompt,
    made: CacheForecast,
    before: Sequence[PromptPart],
    after: Sequence[PromptPart],
    difference: PromptDifference | None,
) -> CacheForecast:
    facts, now = made.facts, made.sent
    same = len(before) if difference is None else difference.parts
    kept_ends = _ends_in(kept, before)
    valid = [(end, place) for end, place in kept_ends if place < same]
    living = [(end, place) for end, place in valid if now - end.sent <= end.seconds]
    marks = [place for place, part in enumerate(after) if part.mark]
    found = [end for end, place in living if any(place <= mark < place + facts.lookback for mark in marks)]
    expected = max((end.tokens for end in found), default=0)
    made = structs.replace(made, ends=tuple([end for end, _ in valid]))
    if expected + facts.block >= kept.held:
        return structs.replace(made, expected=expected)
    if not marks:
        return structs.replace(made, cause="marks", said="nothing is marked for the cache any more")
    if valid and valid[-1][0].tokens >= kept.held:  # nothing of it differs
        if valid[-1] in living:
            said = f"its mark stands more than {facts.lookback} blocks behind the last one"
            return structs.replace(made, expected=expected, cause="marks", said=said)
        seconds = valid[-1][0].seconds
        said = f"{made.passed:.0f} s passed, and it is kept for {seconds} s"
        return structs.replace(made, expected=expected, cause="time to live", said=said)
    return _explained(made, expected, difference, lives=True)


def _ends_in(kept: KeptPrompt, parts: Sequence[PromptPart]) -> list[tuple[CacheEnd, int]]:
    """What was kept, shortest first, each with the place of its last part."""
    marked = [place for place, part in enumerate(parts) if part.mark] if kept.held else []
    sums = [*accumulate([part.weight for part in parts])]
    weight = sums[-1] if sums else 0
    # What was counted up to the last mark tells what a byte of the prompt counts; else what all of it did.
    counted, whole = (kept.held, sums[marked[-1]]) if marked else (kept.tokens, weight)
    tokens = [counted * held // max(whole, 1) for held in sums]
    found = {place: CacheEnd(tokens[place], parts[place].mark, kept.sent) for place in marked}
    for end in kept.ends:  # the part with which it ended, by its tokens
        place = next((at for at, held in enumerate(tokens) if held >= end.tokens - 1 - at), None)
        if place is not None and place not in found:
            found[place] = end
    return [(found[place], place) for place in sorted(found)]


# Whether one request is the beginning of another, seen by comparing memory


def _settings_behind(kept: KeptPrompt, after: bytes, facts: CacheFacts) -> int | None:
    """How many bytes of settings stand behind the messages, if it is surely the same prompt with more messages, or none, at its end.
    None if it may be another one. Marks may have moved."""
    before = kept.body
    at = common_bytes(before, after)
    behind = at
    if facts.marks:
        at, behind = _past_marks(before, after, at)
    rest = len(before) - at
    if rest and not (
        before[at : at + 1] == b"]"
        and after[behind : behind + 1] in (b",", b"]")
        and after.endswith(memoryview(before)[at:])
        # Tools are most of it, and once is enough to look for messages in them.
        and (rest <= kept.settings or not any(before.find(field, at) >= 0 for field in _HISTORY_FIELDS))
    ):
        return None
    if not facts.marks:
        return rest
    name = MARK_FIELDS[0].encode() if b"cache_control" in before else MARK_FIELDS[1].encode()
    was, now = before.rfind(name), after.rfind(name)
    between = after.count(b'"type"' if name == b"cache_control" else b"{", was, now)
    return rest if 0 <= was <= now and between < facts.lookback - 4 else None


def _past_marks(before: bytes, after: bytes, at: int) -> tuple[int, int]:
    """Where both differ first if marks are not looked at: the place in each."""
    behind = at
    for _ in range(_MOST_MARKS):
        for back in (0, 1):
            one, other = _MARK.match(before, at - back), _MARK.match(after, behind - back)
            if (one is None) != (other is None):
                break
        else:
            return at, behind
        if one is not None:
            at = one.end()
            behind -= back
        elif other is not None:
            behind = other.end()
            at -= back
        same = common_bytes(before, after, at, behind)
        at, behind = at + same, behind + same
    return at, behind


def _outcome(forecast: CacheForecast, usage: Usage, read: int, prices: PriceBook | None) -> CacheOutcome:
    facts, held = forecast.facts, forecast.held
    tokens = usage.input_tokens or 0
    # What is not sent any more cannot be read; of another model's count only about as much as is sent now.
    lost = max(min(held, tokens) - read, 0)
    if lost <= max(held * _SLACK, facts.block) or held < facts.minimum:
        lost = 0
    cause, said = forecast.cause, forecast.said
    if lost and cause == "none":
        cause, said = _after_the_fact(forecast, usage)
    if not lost and cause not in ("first request", "model"):
        cause, said = "none", ""
    reason = usage.cache_miss or ""
    if lost and reason:
        said = f"{said}; the provider says: {reason}" if said else f"the provider says: {reason}"
    shown = bool(lost)
    return CacheOutcome(
        expected=forecast.expected,
        read=read,
        held=held,
        lost=lost,
        cause=cause,
        said=said,
        place=forecast.place if shown else "",
        first_byte=forecast.first_byte if shown else None,
        total_bytes=forecast.total_bytes if shown else 0,
        passed=forecast.passed,
        dollars=_lost_dollars(forecast, usage, lost, prices) if lost and prices is not None else None,
        confidence=facts.confidence,
        reason=reason,
    )


def _after_the_fact(forecast: CacheForecast, usage: Usage) -> tuple[CacheCause, str]:
    """The cache should have held, and did not."""
    facts = forecast.facts
    if usage.cache_miss:
        return "provider", ""
    if facts.doubtful and forecast.passed is not None and forecast.passed > facts.doubtful:
        return "time to live", f"{forecast.passed:.0f} s passed, and it may go after {facts.doubtful} s"
    if forecast.said:
        return "unknown", forecast.said
    if name := options_changed(forecast.before, forecast.body):
        return "options", f"the option {name} changed"
    return "unknown", "the provider does not say why"


def _lost_dollars(forecast: CacheForecast, usage: Usage, lost: int, prices: PriceBook) -> float | None:
    """What the lost tokens cost more than they would have, read from the cache."""
    provider, _, model = forecast.key[1].partition("/")
    written = lost if usage.cache_write_tokens else None
    paid = prices.cost_of(Usage(lost, 0, None, written), provider, model)
    cached = prices.cost_of(Usage(lost, 0, lost), provider, model)
    return None if paid is None or cached is None else max(paid - cached, 0.0)


def _header(forecast: CacheForecast, outcome: CacheOutcome | None) -> str:
    said = [f"expected={forecast.expected}"]
    cause = forecast.cause
    if outcome is not None:
        cause = outcome.cause
        if outcome.read is not None:
            said.append(f"read={outcome.read}")
        if outcome.lost:
            said.append(f"lost={outcome.lost}")
    if cause != "none":
        said.append(f'cause="{cause}"')
    return ", ".join([*said, f"confidence={forecast.facts.confidence}"])
