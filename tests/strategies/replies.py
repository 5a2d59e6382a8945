"""Replies as providers give them, as events, and the ways in which bytes may be cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage

words = st.sampled_from(
    ("Hello", " world", "naïve ✓", "\n", "data: {}", "line\r\nbreak", "\u2028", '"quoted"', "[DONE]", "𝒳")
)
pieces = st.lists(words, min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab✓\n\"'{}", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text("xyz", min_size=1, max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
arguments = st.dictionaries(st.sampled_from(("city", "n", "ключ", "a b")), values, max_size=3)


@st.composite
def replies(draw: st.DrawFn, *, thinks: bool = True) -> list[Event]:
    """The events of one whole reply: thoughts, then text, then calls in parallel, their arguments interleaved."""
    events: list[Event] = [ReplyStarted("reply_1", "model-1")]
    index = 0
    if thinks and draw(st.booleans()):
        events += [ReasoningDelta(index, piece) for piece in draw(pieces)]
        index += 1
    calls = draw(st.lists(arguments, max_size=3))
    if not calls or draw(st.booleans()):
        events += [TextDelta(index, piece) for piece in draw(pieces)]
        index += 1
    waiting: list[tuple[int, list[str]]] = []
    for number, told in enumerate(calls):
        events.append(CallStarted(index, f"call_{number}", draw(st.sampled_from(("read", "get_weather")))))
        waiting.append((index, list(_cut_text(json.dumps(told), draw(st.integers(1, 3))))))
        index += 1
    while waiting:
        position = draw(st.integers(0, len(waiting) - 1))
        at, parts = waiting[position]
        events.append(ArgumentsDelta(at, parts.pop(0)))
        if not parts:
            waiting.pop(position)
    events.append(UsageReported(draw(usages)))
    reason: FinishReason = "tool_calls" if calls else draw(st.sampled_from(("stop", "length")))
    events.append(Finished(reason))
    return events


usages = st.builds(
    Usage,
    input_tokens=st.integers(10, 100_000),
    output_tokens=st.integers(1, 5000),
)


def _cut_text(text: str, parts: int) -> Iterator[str]:
    size = max(1, -(-len(text) // parts))
    yield from (text[start : start + size] for start in range(0, len(text), size))


cuts = st.lists(st.integers(1, 60), max_size=40)


def in_portions(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """The bytes cut into portions of these sizes, the rest in one piece."""
    start = 0
    for size in sizes:
        if start >= len(data):
            return
        yield data[start : start + size]
        start += size
    if start < len(data):
        yield data[start:]
