"""The rules of every target by the name of its dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.gemini.rules import GEMINI
from segue.dialects.mistral.rules import MISTRAL
from segue.dialects.ollama.rules import OLLAMA
from segue.dialects.openai_chat.rules import VARIANTS
from segue.dialects.openai_responses.rules import OPENAI_RESPONSES

if TYPE_CHECKING:
    from segue.transcript.rules import Rules

RULES: dict[str, Rules] = {
    rules.target.dialect: rules for rules in (*VARIANTS, OPENAI_RESPONSES, ANTHROPIC, GEMINI, MISTRAL, OLLAMA)
}
