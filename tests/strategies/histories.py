"""Histories, legal and not: what a conversation may look like after crashes, cancels, switches and other tools."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from segue.conversation.blocks import (
    Block,
    Code,
    Media,
    Origin,
    Reasoning,
    Seal,
    Text,
    ToolCall,
    ToolResult,
)
from segue.conversation.message import Conversation, Message
from segue.transcript.rules import Rules

FOREIGN = Origin("elsewhere", "another", "https://else.where", "other-1")

CYCLE: dict[str, Any] = {"name": "cycle"}
CYCLE["itself"] = CYCLE

IDS = (
    "",
    "",
    "a",
    "b",
    "a|b",
    "a/b",
    "a_b",
    "call-0",
    "call_1",
    "toolu_01",
    "functions.read:0",
    "functions.read:1",
    "aB3dE5f7G",
    "x" * 400,
    "\ud800",
    "ключ",
)
NAMES = ("read", "write", "get.weather", "näme", "1st", "", "a" * 90, "read file", "\udc80", "_ok-1")

ids = st.sampled_from(IDS) | st.text(max_size=12)
names = st.sampled_from(NAMES)
texts = st.sampled_from(("", " ", "\n\t", "hello", "naïve ✓", "lone \ud83d half", "```x```")) | st.text(
    max_size=20
)

plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
strange_values = st.sampled_from(
    (
        float("nan"),
        float("inf"),
        b"\x00\xff",
        CYCLE,
        {1: 2, None: 3},
        {"s": {"b", "a", "c"}},
        object,
        "\udfff",
        ("t", 1),
        2**100,
    )
)
values = plain_values | strange_values
raw_arguments = st.sampled_from(
    (
        "",
        "{}",
        '{"a": 1}',
        ' {"b":[1,2,{}]} ',
        '{"cut": "of',
        "[1]",
        "null",
        '"text"',
        "NaN",
        "{} {}",
        '{"a": "\ud800"}',
    )
)
media = st.builds(
    Media,
    kind=st.sampled_from(("image", "document", "audio")),
    mime=st.sampled_from(("", "image/png", "image/svg+xml", "application/pdf", "audio/wav", "text/plain")),
    data=st.sampled_from(("", "aGVsbG8=", "é")),
    url=st.sampled_from(
        ("", "https://example.invalid/cat.png", "http://example.invalid/a.PDF?x", "file-id:abc")
    ),
    name=st.sampled_from(("", "cat.png", "\ud800")),
)
reasons = st.sampled_from((None, None, None, "cancelled_by_user", "interrupted", "provider_error"))


def seals(target: Origin) -> st.SearchStrategy[Seal | None]:
    return st.none() | st.builds(
        Seal,
        origin=st.sampled_from((target, FOREIGN, structs.replace(target, model="sibling"))),
        payload=st.sampled_from(("SEALED-one", "SEALED-two", "SEALED-\ud800")),
        kind=st.sampled_from(("signature", "encrypted", "redacted", "thought")),
        made_under=st.sampled_from(("", "", "elsewhere")),
    )


def blocks(target: Origin) -> st.SearchStrategy[Block]:
    sealed = seals(target)
    calls = st.builds(
        ToolCall, id=ids, name=names, arguments=values, raw=raw_arguments, native_id=ids, seal=sealed
    )
    results = st.builds(
        ToolResult,
        call_id=ids,
        name=names | st.just(""),
        output=values,
        error=st.sampled_from((None, None, "", "it failed", "\ud800")),
        complete=st.sampled_from((None, True, False)),
        media=st.lists(media, max_size=2).map(tuple),
        native_id=ids,
        reason=reasons,
    )
    thoughts = st.builds(
        Reasoning, text=st.sampled_from(("", "THOUGHT-one", "THOUGHT-two", "THOUGHT-\ud800")), seal=sealed
    )
    return st.one_of(
        st.builds(Text, text=texts, seal=sealed),
        thoughts,
        calls,
        calls,
        results,
        results,
        media,
        st.builds(Code, code=texts, language=st.sampled_from(("", "python"))),
    )


def messages(target: Origin) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        speaker=st.sampled_from(("user", "model", "tool")),
        blocks=st.lists(blocks(target), max_size=4).map(tuple),
        origin=st.sampled_from((None, target, target, FOREIGN, structs.replace(target, model="sibling"))),
        instruction=st.sampled_from((False, False, False, True)),
    )


def conversations(rules: Rules, *, max_size: int = 7) -> st.SearchStrategy[Conversation]:
    """Any history at all, with some of it written by the target itself."""
    return st.builds(
        Conversation,
        messages=st.lists(messages(rules.target), min_size=1, max_size=max_size).map(tuple),
        system=st.sampled_from(("", "Be brief.", "\ud800")),
    )


class Told:
    """A conversation that was whole once, and what is true about it whatever happened to it since."""

    def __init__(self, conversation: Conversation, outputs: dict[str, str], texts: list[str]) -> None:
        self.conversation = conversation
        self.outputs = outputs
        """Call id → the one real output its tool gave."""
        self.texts = texts
        """Everything user and model really said."""


@st.composite
def whole_conversations(draw: st.DrawFn, origin: Origin | None = None, *, max_turns: int = 3) -> Told:
    """User, then model with calls and their results a few times, then a last word; nothing broken."""
    conversation = Conversation(system="Be brief.")
    outputs: dict[str, str] = {}
    said: list[str] = []
    spoken_by = origin if origin is not None else draw(st.sampled_from((None, FOREIGN)))
    for turn in range(draw(st.integers(1, max_turns))):
        said.append(f"question {turn}")
        conversation = conversation.append(Message("user", (Text(f"question {turn}"),)))
        for batch in range(draw(st.integers(0, 2))):
            text = f"looking {turn}.{batch}"
            said.append(text)
            wanted = [
                ToolCall("", draw(st.sampled_from(("read", "write"))), {"n": number}, native_id=draw(ids))
                for number in range(draw(st.integers(1, 3)))
            ]
            conversation = conversation.append(Message("model", (Text(text), *wanted), spoken_by))
            calls = conversation.messages[-1].calls
            for call in calls:
                outputs[call.id] = f"output of {call.id}!"
            results = tuple(
                ToolResult(call.id, call.name, outputs[call.id], native_id=call.native_id) for call in calls
            )
            conversation = conversation.append(Message("tool", results))
        said.append(f"answer {turn}")
        conversation = conversation.append(Message("model", (Text(f"answer {turn}"),), spoken_by))
    return Told(conversation, outputs, said)
