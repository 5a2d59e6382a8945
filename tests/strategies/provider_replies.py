"""Replies of any provider, valid or not: every event there is, in any order that a decoder may report."""

from __future__ import annotations

import json
from typing import Final, Literal

from hypothesis import strategies as st

from segue.conversation.blocks import Media
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from strategies.replies import arguments

SEAL: Final = "SEALED-PAYLOAD"
THOUGHT: Final = "a private thought"
SEAL_KINDS: Final[dict[str, Literal["signature", "encrypted", "thought"]]] = {
    "anthropic": "signature",
    "openai_responses": "encrypted",
    "gemini": "thought",
    "mistral": "signature",
    "converse": "signature",
}
"""Makers whose wire has a place for seals, and their kind."""

native_ids = st.sampled_from(
    (
        "",
        "null",
        "call_0",
        "call_0",
        "functions.read:0",
        "toolu_01A09q90qw90lq917835lq9",
        "D681PevKs",
        "é",
        "x" * 80,
    )
)
tool_names = st.sampled_from(("read", "write", "", "default_api:read", "нет", "a" * 90, "mcp__x__y"))
texts = st.sampled_from(("Hello", " world", "\n", "", " ", "✓", "data: {}\n\n", "[DONE]"))
argument_texts = st.one_of(
    arguments.map(json.dumps),
    arguments.map(lambda held: json.dumps(held, indent=2)),
    st.sampled_from(("", "[1]", "{'a': 1}", "nonsense", '{"a":', "null")),
)


reasons: tuple[FinishReason, ...] = ("stop", "tool_calls", "length", "content_filter", "error", "cancelled")


def _end(maker: str, reason: FinishReason) -> Finished:
    own = {("gemini", "error"): "MALFORMED_FUNCTION_CALL", ("openai_responses", "content_filter"): "refusal"}
    return Finished(reason, own.get((maker, reason), ""))


@st.composite
def _block(draw: st.DrawFn, index: int, maker: str, *, seals: bool) -> list[Event]:
    kind = draw(st.sampled_from(("text", "text", "thought", "call", "call", "call", "media", "item")))
    sealed = seals and maker in SEAL_KINDS and draw(st.booleans())
    if kind == "thought":
        events: list[Event] = [ReasoningDelta(index, THOUGHT)]
        return [*events, Sealed(index, SEAL, SEAL_KINDS[maker])] if sealed else events
    if kind == "call":
        events = [CallStarted(index, draw(native_ids), draw(tool_names))]
        if sealed and SEAL_KINDS[maker] == "thought":
            events.append(Sealed(index, SEAL, "thought", "call"))
        text = draw(argument_texts)
        cut = draw(st.integers(0, len(text)))
        return [*events, *(ArgumentsDelta(index, piece) for piece in (text[:cut], text[cut:]) if piece)]
    if kind == "media":
        return [MediaArrived(index, Media("image", "image/png", "iVBORw0KGgo="))]
    if kind == "item" and sealed:
        return [Sealed(index, json.dumps({"type": "web_search_call", "id": SEAL}), "encrypted", "text")]
    return [TextDelta(index, draw(texts)) for _ in range(draw(st.integers(1, 3)))]


@st.composite
def provider_replies(draw: st.DrawFn, maker: str, *, seals: bool = True) -> list[Event]:
    """Blocks one after another, some of them interleaved with the one before."""
    events: list[Event] = [ReplyStarted("reply", "model")] if draw(st.booleans()) else []
    for index in range(draw(st.integers(0, 5))):
        block = draw(_block(index, maker, seals=seals))
        if len(events) > 2 and draw(st.integers(0, 4)) == 0:
            events.insert(len(events) - 1, block[0])
            block = block[1:]
        events += block
    if draw(st.booleans()):
        events.append(UsageReported(Usage(draw(st.integers(1, 99)), draw(st.integers(1, 99)))))
    return [*events, _end(maker, draw(st.sampled_from(reasons)))]
