"""The context window: what a prompt costs, and what is silently left out of it (OLL-15, OLL-16)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from segue.emulators.model import tokens
from segue.emulators.rules import Context, rule

Message: TypeAlias = Mapping[str, Any]

_THOUGHTS = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
DEFAULT = 4096
"""OLL-15: what a machine with less than 23 GiB of video memory gets, whatever the model could take."""


def size(body: Mapping[str, Any], context: Context) -> int:
    """The window of this request: asked for, or the default, and never more than the model has."""
    options = body.get("options")
    asked = options.get("num_ctx") if isinstance(options, Mapping) else None
    wanted = int(asked) if isinstance(asked, int | float) and asked > 0 else DEFAULT
    return min(wanted, int(context.facts.get("context", wanted)))


def messages_of(body: Mapping[str, Any]) -> list[Message]:
    """The messages of a readable request; null stands for an empty one."""
    return [message or {} for message in body.get("messages") or ()]


@rule("OLL-09")
def read(body: Mapping[str, Any], context: Context) -> list[Message]:
    """The messages as the model gets them: some forget what was thought aloud before the last question."""
    messages = messages_of(body)
    if not context.facts.get("strips_thoughts"):
        return messages
    asked = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    return [
        {**message, "content": _THOUGHTS.sub("", message["content"])}
        if index < max(asked, default=0) and message.get("role") == "assistant" and message.get("content")
        else message
        for index, message in enumerate(messages)
    ]


def cost(message: Message) -> int:
    text_tokens = sum(
        tokens.count(text) for key in ("content", "thinking") if isinstance(text := message.get(key), str)
    )
    calls = message.get("tool_calls")
    return 4 + text_tokens + (tokens.count_value(calls) if calls else 0)


def prompt_tokens(messages: Sequence[Message], tools: object) -> int:
    return sum(map(cost, messages)) + (tokens.count_value(tools) if tools else 0)


def kept(messages: Sequence[Message], tools: object, limit: int) -> list[Message]:
    """What is left when messages are dropped from the front: system messages and the last one always stay."""
    excess = prompt_tokens(messages, tools) - limit
    left: list[Message] = []
    for index, message in enumerate(messages):
        stays = message.get("role") == "system" or index == len(messages) - 1
        if excess > 0 and not stays:
            excess -= cost(message)
        else:
            left.append(message)
    return left


def evaluated(messages: Sequence[Message], tools: object, limit: int) -> int:
    """The prompt tokens that are really read; a prompt that still does not fit is cut to half the window."""
    total = prompt_tokens(kept(messages, tools, limit), tools)
    return total if total <= limit else limit // 2
