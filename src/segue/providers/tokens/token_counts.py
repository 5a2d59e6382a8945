"""Counts the tokens of a request before it is sent, and checks them against the limit of the model.

The provider's own counter is preferred. Where there is none, or it fails, four characters are a token.
"""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

from segue.errors import ContextLengthError, SegueError
from segue.providers.models.cards import card_table
from segue.providers.tokens.token_estimates import json_text, texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.providers.adapter import ChatRequest, ProviderAdapter

UNKNOWN_LIMIT: Final = 4096
WARNING_THRESHOLD: Final = 0.9
ASKING_SECONDS: Final = 5.0
"""How long a provider may take to describe a model: a limit is worth less than an answer."""
_CHARACTERS_PER_TOKEN: Final = 4

LimitStatus: TypeAlias = Literal["within", "warning", "over"]


@final
class LimitCheck(Struct, frozen=True):
    """How many tokens a request has, how many the model takes, and what follows."""

    model: str
    tokens: int
    limit: int
    threshold: float = WARNING_THRESHOLD

    @property
    def status(self) -> LimitStatus:
        if self.tokens > self.limit:
            return "over"
        return "warning" if self.tokens >= self.limit * self.threshold else "within"

    @property
    def within_limit(self) -> bool:
        return self.status != "over"

    @property
    def is_warning(self) -> bool:
        return self.status == "warning"


def fallback_tokens(characters: int) -> int:
    """Four characters are a token, rounded up."""
    return -(-characters // _CHARACTERS_PER_TOKEN)


def characters_of(request: ChatRequest) -> int:
    """All characters of a request: system prompt, texts, reasoning, calls, results and descriptions of tools."""
    content = len(request.conversation.system)
    content += sum(
        len(text)
        for message in request.conversation.messages
        for block in message.blocks
        for text in texts_of(block)
    )
    return content + sum(
        len(tool.name) + len(tool.description) + len(json_text(tool.parameters)) for tool in request.tools
    )


@lru_cache(maxsize=4096)
def _context_of(model: str) -> int | None:
    """The context window by the cards, for any provider."""
    name = model.rpartition("/")[2].lower()
    return next((card.context for card in card_table().cards if fnmatchcase(name, card.match)), None)


@final
class TokenCounter:
    """Counts requests for one provider and checks them against the limits of its models."""

    def __init__(
        self,
        provider: ProviderAdapter,
        *,
        limits: Mapping[str, int] | None = None,
        default_limit: int = UNKNOWN_LIMIT,
        warning_threshold: float = WARNING_THRESHOLD,
    ) -> None:
        """`limits`: tokens by model, which win over all else; `default_limit` is for unknown models."""
        self._provider = provider
        self._limits = dict(limits or {})
        self._default_limit = default_limit
        self._threshold = warning_threshold
        self._reported: dict[str, int | None] = {}

    async def estimate_tokens(self, request: ChatRequest) -> int:
        """The input tokens of a request, at least one. Never fails: a count that cannot be had is estimated."""
        count = self._provider.capabilities.count_tokens
        if count is not None:
            try:
                return max(1, await count(request))
            except SegueError:
                pass  # the request itself will fail and report why
        return max(1, fallback_tokens(characters_of(request)))

    def check_limit(self, model: str, tokens: int) -> LimitCheck:
        """Compare a count with the known limit of the model; sends no request."""
        return LimitCheck(model, tokens, self._known_limit(model) or self._default_limit, self._threshold)

    async def limit_of(self, model: str) -> int:
        """The tokens a model takes: as configured, else as its provider reports, else by its card, else the default."""
        if model not in self._limits and model not in self._reported:
            self._reported[model] = await self._ask(model)
        return self._known_limit(model) or self._default_limit

    async def admit(self, request: ChatRequest) -> LimitCheck:
        """Count a request before it is sent; one that is too long is refused."""
        await self.limit_of(request.model)
        check = self.check_limit(request.model, await self.estimate_tokens(request))
        if check.status == "over":
            raise ContextLengthError(
                f"Request exceeds token limit: {check.tokens} > {check.limit} for model {check.model}"
            )
        return check

    def _known_limit(self, model: str) -> int | None:
        card = self._provider.card(model)
        on_a_card = _context_of(model) if card is None else card.context
        return self._limits.get(model) or self._reported.get(model) or on_a_card

    async def _ask(self, model: str) -> int | None:
        """What the provider reports, if it answers in time."""
        show, list_models = self._provider.capabilities.show_model, self._provider.capabilities.list_models
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                if show is not None:
                    return (await show(model)).context
                if list_models is not None:
                    listed = await list_models()
                    return next((info.context for info in listed if info.id == model), None)
        except (SegueError, TimeoutError):
            pass
        return None
