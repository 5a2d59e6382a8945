# Written by python -m scripts.namespaces --write

from segue.conversation.events import ArgumentsDelta, CallStarted, Event, Failed, Finished, MediaArrived, ReasoningDelta, Reply, ReplyStarted, Sealed, TextDelta, UsageReported, fold
from segue.dialects.card import ModelCard
from segue.providers.adapter import ChatRequest, ChecksHealth, CountsTokens, Embeds, Health, KnowsModels, ListsModels, ModelInfo, Previews, Problem, ProviderAdapter, Providers, PullProgress, PullsModels, Sent, ShowsModel, ValidatesConfig
from segue.providers.embedded import EmbeddedProvider
from segue.providers.models.cards import card_for_model
from segue.providers.registry import ProviderRegistry, default_registry
from segue.providers.scripted import Pause, ScriptedProvider, calls, says
from segue.providers.token_counts import TokenCounter

__all__ = [
    "ArgumentsDelta",
    "CallStarted",
    "ChatRequest",
    "ChecksHealth",
    "CountsTokens",
    "EmbeddedProvider",
    "Embeds",
    "Event",
    "Failed",
    "Finished",
    "Health",
    "KnowsModels",
    "ListsModels",
    "MediaArrived",
    "ModelCard",
    "ModelInfo",
    "Pause",
    "Previews",
    "Problem",
    "ProviderAdapter",
    "ProviderRegistry",
    "Providers",
    "PullProgress",
    "PullsModels",
    "ReasoningDelta",
    "Reply",
    "ReplyStarted",
    "ScriptedProvider",
    "Sealed",
    "Sent",
    "ShowsModel",
    "TextDelta",
    "TokenCounter",
    "UsageReported",
    "ValidatesConfig",
    "calls",
    "card_for_model",
    "default_registry",
    "fold",
    "says",
]
