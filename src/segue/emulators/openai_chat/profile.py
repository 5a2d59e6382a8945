"""What Chat Completions takes, and how servers that speak it differ from api.openai.com, as data."""

from msgspec import Struct

from segue.emulators.openai_chat.errors import Types

TYPES: Types = {
    "stream": (bool, "a boolean"),
    "parallel_tool_calls": (bool, "a boolean"),
    "max_tokens": (int, "an integer"),
    "max_completion_tokens": (int, "an integer"),
    "n": (int, "an integer"),
    "seed": (int, "an integer"),
    "temperature": ((int, float), "a decimal"),
    "top_p": ((int, float), "a decimal"),
    "user": (str, "a string"),
    "stream_options": (dict, "an object"),
    "response_format": (dict, "an object"),
    "metadata": (dict, "an object"),
}
RANGES = {"temperature": (0, 2), "top_p": (0, 1), "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2)}


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
            *TYPES,
            *RANGES,
            "messages",
            "model",
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "stop",
            "store",
            "logprobs",
            "top_logprobs",
            "logit_bias",
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
