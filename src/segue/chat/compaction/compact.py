"""Which strategy shortens a conversation, and which one takes its place when it fails."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

from segue.chat.compaction.strategies import (
    cut,
    elide,
    last_prompt,
    request_for_summary,
    shorten_newest,
    shorten_replies,
    truncate,
    units_of,
    with_ledger_results,
)
from segue.conversation.message import Conversation
from segue.errors import UsageError
from segue.limits import COMPACT_AT, COMPACT_TO

if TYPE_CHECKING:
    from segue.conversation.interaction import Ledger
    from segue.conversation.message import Message

Strategy: TypeAlias = Literal["summarise", "middle_out", "truncate", "elide_results"]
Summarise: TypeAlias = Callable[[Conversation], Awaitable[str]]
"""Asks a model: the conversation is plain text, ends with the request for a summary, and offers no tools."""

SUMMARY = "[Earlier messages were left out here to save space. What they said, summed up:]\n\n"
_HEAD_SHARE = 0.2
_TAIL_SHARE = 0.4
"""Of the budget: what stays as it is at the front and at the end, around what is summed up."""


@final
class Summariser(Struct, frozen=True):
    """A model that can be asked for a summary. `window`: tokens that fit there, its answer included."""

    ask: Summarise
    window: int | None = None
    name: str = ""


@final
class CompactionResult(Struct, frozen=True, kw_only=True):
    """A shorter conversation."""

    conversation: Conversation
    strategy: Strategy
    """The one that did it: another than asked for where that failed or was not enough."""
    tokens_before: int
    tokens_after: int
    dropped: int
    """Messages that were dropped, or are only in the summary."""
    fits: bool
    """Whether it is within the budget. If not, everything that may be dropped was."""
    problem: str = ""
    """Which summaries could not be had, and why."""


def needs_compaction(
    tokens: int, limit: int | None, output: int | None = None, share: float = COMPACT_AT
) -> bool:
    """Whether a request of so many tokens fills its share of what a window leaves for input."""
    return limit is not None and tokens > share * _room(limit, output)


def budget_for(limit: int, output: int | None = None, share: float = COMPACT_TO) -> int:
    """How many tokens to compact to."""
    return max(1, int(share * _room(limit, output)))


def _room(limit: int, output: int | None) -> int:
    # A window may be as small as the longest answer; half of it always counts as room for input.
    return limit - min(output or 0, limit // 2)


async def compact(
    conversation: Conversation,
    ledger: Ledger | None,
    *,
    strategy: Strategy,
    budget: int,
    count: Callable[[Conversation], int],
    summarisers: Sequence[Summariser] = (),
    exactly: bool = False,
) -> CompactionResult | None:
    """Shorten to at most `budget` tokens, as `count` counts them; None if it fits or nothing may be dropped.

    System prompt and last user prompt stay as they are, no call is parted from its result, and the ledger is only
    read. `summarisers` are asked in their order until one writes a summary. `exactly`: no other strategy takes the place
    of this one; it does what it can, and raises UsageError `no_summary` where it can do nothing.
    """
    whole = with_ledger_results(conversation, ledger)
    if not whole.messages or (before := count(whole)) <= budget:
        return None

    def fits(tried: Conversation) -> bool:
        return count(tried) <= budget

    shorter, done, problem = whole, strategy, ""
    if strategy == "elide_results":
        shorter = elide(whole, fits)
    elif strategy != "truncate":
        units = units_of(whole.messages)
        head = _head(whole.messages, units, count, budget) if strategy == "middle_out" else 0
        gone = _middle(whole.messages, units, head, count, budget)
        if strategy == "middle_out" and not summarisers:
            shorter = truncate(whole, fits, head=head)
        elif not gone:
            problem = "Nothing stands before the messages that must stay."
        else:
            shorter, problem = await _with_summary(whole, units, gone, count, fits, summarisers)
            if exactly and shorter is whole:
                raise _no_summary(problem)
    if not exactly or strategy == "truncate":
        if not fits(shorter):
            shorter, done = truncate(shorter, fits), "truncate"
        for shorten in (shorten_newest, shorten_replies):
            shorter = shorter if fits(shorter) else shorten(shorter, fits)
    after = count(shorter)
    if after >= before:
        return None
    return CompactionResult(
        conversation=shorter,
        strategy=done,
        tokens_before=before,
        tokens_after=after,
        dropped=_dropped(whole, shorter),
        fits=after <= budget,
        problem=problem,
    )


def _dropped(whole: Conversation, shorter: Conversation) -> int:
    known = {id(message) for message in whole.messages}
    notes = sum(message.instruction and id(message) not in known for message in shorter.messages)
    return len(whole.messages) - (len(shorter.messages) - notes)


def _head(
    messages: tuple[Message, ...], units: Sequence[range], count: Callable[[Conversation], int], budget: int
) -> int:
    """How many units at the front stay as they are."""

    def small(head: int) -> bool:
        return count(Conversation(messages[: units[head - 1].stop])) <= _HEAD_SHARE * budget

    return _most(len(units) - 1, small)


def _middle(
    messages: tuple[Message, ...],
    units: Sequence[range],
    head: int,
    count: Callable[[Conversation], int],
    budget: int,
) -> list[int]:
    """The units that are to be summed up: neither at the front nor at the end, nor that of the last prompt."""

    def small(tail: int) -> bool:
        return count(Conversation(messages[units[-tail].start :])) <= _TAIL_SHARE * budget

    tail = max(1, _most(len(units) - head, small))
    prompt = last_prompt(messages)
    return [number for number in range(head, len(units) - tail) if prompt not in units[number]]


def _most(limit: int, small: Callable[[int], bool]) -> int:
    """How many of `limit` are still small enough; none is asked about 0."""
    return bisect_left(range(1, limit + 1), x=True, key=lambda count: not small(count))


async def _with_summary(
    whole: Conversation,
    units: Sequence[range],
    gone: Sequence[int],
    count: Callable[[Conversation], int],
    fits: Callable[[Conversation], bool],
    summarisers: Sequence[Summariser],
) -> tuple[Conversation, str]:
    """The conversation with the first summary that can be had; itself where there is none. What failed, too."""
    replaced = [whole.messages[place] for number in gone for place in units[number]]
    problems: list[str] = []
    for summariser in summarisers:
        of = f" of {summariser.name}" if summariser.name else ""
        request = request_for_summary(replaced, count, summariser.window)
        try:
            summary = (await summariser.ask(request)).strip()
        except Exception as error:  # whatever went wrong there, the history is whole
            problems.append(f"The summary{of} failed: {error}")
            continue
        if not summary:
            problems.append(f"The summary{of} was empty.")
            continue
        shorter = cut(whole, units, gone, note=SUMMARY + summary)
        shorter = truncate(shorter, fits, keep=(units[gone[0]].start,))
        if fits(shorter):
            return shorter, " ".join(problems)
        problems.append(f"The summary{of} was too long.")
    return whole, " ".join(problems) or "No model is there to write a summary."


def _no_summary(problem: str) -> UsageError:
    return UsageError(
        problem,
        code="no_summary",
        hint="The conversation is unchanged. Try again, use another model, or drop messages instead: truncate.",
    )
