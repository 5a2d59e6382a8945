"""Providers of models: the registry, facts about providers and models, and what you need to write one."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.conversation.events": (
        "ArgumentsDelta CallStarted Cited Event Failed Finished MediaArrived ReasoningDelta Reply ReplyStarted Sealed "
        "TextDelta UsageReported fold"
    ),
    "segue.dialects.card": "ModelCard",
    "segue.providers.adapter": "ChatRequest ProviderAdapter Providers RequestSent StreamEvent fold_stream",
    "segue.providers.capabilities": "Capabilities ConfigProblem Health ModelInfo PullProgress",
    "segue.providers.embedded": "EmbeddedProvider",
    "segue.providers.models.cards": "card_for_model",
    "segue.providers.registry": "ProviderRegistry default_registry",
    "segue.providers.scripted": "Pause ScriptedProvider calls says",
    "segue.providers.token_counts": "TokenCounter",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
