# Written by python -m scripts.namespaces --write

from segue.conversation.events import ArgumentsDelta, CallStarted, Cited, Event, Failed, Finished, MediaArrived, ReasoningDelta, Reply, ReplyStarted, Sealed, TextDelta, UsageReported, fold
from segue.dialects.card import ModelCard
from segue.providers.adapter import ChatRequest, ProviderAdapter, Providers, RequestSent, StreamEvent, fold_stream
from segue.providers.capabilities import Capabilities, ConfigProblem, Health, ModelInfo, PullProgress
from segue.providers.embedded import EmbeddedProvider
from segue.providers.models.cards import card_for_model
from segue.providers.registry import ProviderRegistry, default_registry
from segue.providers.scripted import Pause, ScriptedProvider, calls, says
from segue.providers.token_counts import TokenCounter

__all__ = [
    "ArgumentsDelta",
    "CallStarted",
    "Capabilities",
    "ChatRequest",
    "Cited",
    "ConfigProblem",
    "EmbeddedProvider",
    "Event",
    "Failed",
    "Finished",
    "Health",
    "MediaArrived",
    "ModelCard",
    "ModelInfo",
    "Pause",
    "ProviderAdapter",
    "ProviderRegistry",
    "Providers",
    "PullProgress",
    "ReasoningDelta",
    "Reply",
    "ReplyStarted",
    "RequestSent",
    "ScriptedProvider",
    "Sealed",
    "StreamEvent",
    "TextDelta",
    "TokenCounter",
    "UsageReported",
    "calls",
    "card_for_model",
    "default_registry",
    "fold",
    "fold_stream",
    "says",
]
