"""How a server that speaks Chat Completions differs from api.openai.com, as data."""

from msgspec import Struct


class Profile(Struct, frozen=True, kw_only=True):
    """One Chat Completions server. The defaults are what compatible servers share with api.openai.com."""

    tool_id_max: int | None = 64
    """CHAT-20: 64 since 2026, 40 on older deployments, None where nothing is checked."""
    reparse_arguments: bool = False
    """CHAT-23: arguments in the history must be a JSON object again."""
    reasoning_fields: bool = False
    """CHAT-50: whether `reasoning_content` may come back on assistant messages."""
    needs_reasoning_content: bool = False
    """CHAT-51: whether assistant messages with calls must bring `reasoning_content`."""
    obfuscation: bool = False
    """Streamed chunks carry padding, as api.openai.com's do."""
    known_parameters: frozenset[str] | None = None
    """Parameters beyond these are refused when strict; None accepts any."""
    model_checks: bool = True
    """Apply the facts about OpenAI's models (CHAT-06, 40, 41, 70, 71)."""


OPENAI = Profile(
    obfuscation=True,
    known_parameters=frozenset(
        [
            "messages",
            "model",
            "stream",
            "stream_options",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "functions",
            "function_call",
            "max_tokens",
            "max_completion_tokens",
            "temperature",
            "top_p",
            "n",
            "stop",
            "seed",
            "user",
            "metadata",
            "store",
            "logprobs",
            "top_logprobs",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "response_format",
            "reasoning_effort",
            "verbosity",
            "service_tier",
            "modalities",
            "audio",
            "prediction",
            "web_search_options",
            "prompt_cache_key",
            "prompt_cache_retention",
            "prompt_cache_options",
            "safety_identifier",
            "moderation",
        ]
    ),
)
