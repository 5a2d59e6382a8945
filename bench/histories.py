"""Agent-like histories of any length: a call per two messages, results of half a kilobyte to four."""

from __future__ import annotations

import random

from segue.conversation.blocks import Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message

ORIGIN = Origin("openai_chat", "openai", "https://api.openai.com", "gpt-4.1")
WORDS = [f"word{number}" for number in range(400)]


def agent_like(
    length: int, *, seed: int = 7, origin: Origin = ORIGIN, thoughts: bool = False
) -> Conversation:
    """`length` messages: a question now and then, between them calls and results in turn.

    `thoughts`: each reply begins with one that its origin sealed.
    """
    dice = random.Random(seed)
    messages: list[Message] = []
    minted = 0
    while len(messages) < length:
        if minted % 20 == 0 and (not messages or messages[-1].speaker == "tool"):
            messages.append(Message("user", (Text(_prose(dice, 200)),)))
        raw = f'{{"path": "src/module_{minted}.py", "start": {minted}, "pattern": "{dice.choice(WORDS)}"}}'
        call = ToolCall(f"c{minted}", "search_files", None, raw, f"call_{minted:024x}")
        minted += 1
        said = (Text(_prose(dice, 60)), call)
        thought = (Reasoning("", Seal(origin, f"{minted:0300x}")),) if thoughts else ()
        messages.append(Message("model", (*thought, *said), origin))
        output = _prose(dice, dice.randint(500, 4000))
        messages.append(
            Message("tool", (ToolResult(call.id, "search_files", output, native_id=call.native_id),))
        )
    messages = messages[:length]
    if messages[-1].speaker == "model":  # a request is made when every call is answered
        messages[-1] = Message("user", (Text(_prose(dice, 200)),))
    return Conversation(tuple(messages), "You are a careful engineer.", minted)


def _prose(dice: random.Random, size: int) -> str:
    text = " ".join(dice.choices(WORDS, k=size // 7 + 1))
    return text[:size]
