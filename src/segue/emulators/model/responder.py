"""Who answers: a queue of replies, rules by prompt, or an agent that calls the offered tools and finishes."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Protocol

from segue.emulators.model.tool_calling import ToolCallingResponder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.emulators.model.model_reply import Prompt, Reply


class Responder(Protocol):
    """Anything that can answer a prompt."""

    def reply(self, prompt: Prompt) -> Reply: ...

    def reset(self) -> None:
        """Go back to the state at the start."""


class ScriptedResponder:
    """Queued replies first, then the first rule whose pattern is found in the prompt, then the agent."""

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        rules: Iterable[tuple[str, Reply]] = (),
        *,
        seed: int = 0,
    ) -> None:
        self._first_replies, self._first_rules = tuple(replies), tuple(rules)
        self._seed = seed
        self.queue: deque[Reply] = deque()
        self.rules: list[tuple[re.Pattern[str], Reply]] = []
        self.reset()

    def add(self, *replies: Reply) -> None:
        """Queue replies behind those already waiting."""
        self.queue.extend(replies)

    def when(self, pattern: str, reply: Reply) -> None:
        """Answer with `reply` whenever the last user text contains `pattern` and no tool result came after it."""
        self.rules.append((re.compile(pattern, re.DOTALL), reply))

    def reply(self, prompt: Prompt) -> Reply:
        if self.queue:
            return self.queue.popleft()
        if not prompt.results:
            for pattern, reply in self.rules:
                if pattern.search(prompt.text):
                    return reply
        return self._tool_calling.reply(prompt)

    def reset(self) -> None:
        self.queue = deque(self._first_replies)
        self.rules = [(re.compile(pattern, re.DOTALL), reply) for pattern, reply in self._first_rules]
        self._tool_calling = ToolCallingResponder(self._seed)
