"""The emulators asked about a body that one of our dialects encoded."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Context, enforced

EMULATED: Final = {
    "openai_chat": ("openai", "openai_chat"),
    "openai_responses": ("openai", "openai_responses"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("gemini", "gemini"),
    "gemini_interactions": ("gemini", "gemini_interactions"),
    "mistral": ("mistral", "mistral"),
    "kimi": ("kimi", "kimi"),
    "deepseek": ("deepseek", "deepseek"),
    "ollama": ("ollama", "ollama"),
    "converse": ("bedrock", "converse"),
}
"""Dialect → the provider that is emulated, and the folder of its checks."""


def complaints_about(body: Any, dialect: str, model: str, *, strict: bool = False) -> list[str]:
    """What the emulator of the dialect's provider has against the body."""
    provider, folder = EMULATED[dialect]
    checks = import_module(f"segue.emulators.{folder}.checks")
    headers = {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    context = Context(model=model, facts=facts_for(provider, model), headers=headers, strict=strict)
    return [
        f"{refusal.rule}: {refusal.message}"
        for refusal in checks.complaints(body, context)
        if enforced(refusal, context)
    ]
