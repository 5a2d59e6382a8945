"""What is known before a turn goes out: of the places it could go to, and of what it needs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.chat.router import MemberFacts
from segue.conversation.blocks import Media, ToolResult
from segue.errors import UsageError
from segue.providers.adapter import KnowsModels

if TYPE_CHECKING:
    from segue.chat.route import Route
    from segue.chat.router import Facts
    from segue.chat.tool import Providers
    from segue.conversation.message import Conversation, Message
    from segue.providers.adapter import ProviderAdapter


def provider_of(route: Route, providers: Providers) -> ProviderAdapter:
    found = providers.get(route.provider)
    if found is None:
        raise UsageError(
            f'Provider "{route.provider}" not registered.',
            code="unknown_provider",
            hint="Register it, or choose one of those that are.",
        )
    return found


def facts_from(providers: Providers) -> Facts:
    """What the providers themselves know of their models; where they know nothing, everything is taken to work."""

    def facts(route: Route) -> MemberFacts:
        provider = provider_of(route, providers)
        if not isinstance(provider, KnowsModels):
            return MemberFacts(context=route.context)
        card = provider.card(route.model)
        return MemberFacts(
            context=route.context or card.context, images=card.images is not False, tools=card.tools
        )

    return facts


class Images:
    """Whether a conversation shows any, told as it grows without looking at all of it each time."""

    def __init__(self) -> None:
        self._looked_at: tuple[Message, ...] = ()
        self._found = False

    def __call__(self, conversation: Conversation) -> bool:
        messages, done = conversation.messages, len(self._looked_at)
        if messages[:done] != self._looked_at:  # mostly the very same values, which are not looked into
            done, self._found = 0, False
        self._found = self._found or any(
            type(block) is Media or (type(block) is ToolResult and block.media)
            for message in messages[done:]
            for block in message.blocks
        )
        self._looked_at = messages
        return self._found
