"""The Chat Completions wire as values, and how each server that uses it differs, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Raw, Struct, UnsetType

from segue.dialects.openai_chat import rules
from segue.dialects.schemas import flavours
from segue.transcript.rules import Rules

# What a request holds


@final
class Function(Struct, gc=False):
    """A tool's name and the JSON text of its arguments."""

    name: str
    arguments: str


@final
class Call(Struct, gc=False):
    """One entry of `tool_calls`."""

    id: str
    function: Function
    type: str = "function"
    extra_content: Mapping[str, Any] | UnsetType = UNSET
    """Where Gemini, on this wire, keeps its thought signatures."""


@final
class SystemMessage(Struct, tag_field="role", tag="system", gc=False):
    """A message of the operator."""

    content: str | list[Mapping[str, Any]]


@final
class UserMessage(Struct, tag_field="role", tag="user", gc=False):
    """A message of the user, with media."""

    content: str | list[Mapping[str, Any]]


@final
class AssistantMessage(Struct, tag_field="role", tag="assistant", gc=False):
    """A message of the model: text, reasoning and calls."""

    content: str | list[Mapping[str, Any]] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    reasoning_details: Raw | UnsetType = UNSET
    tool_calls: list[Call] | UnsetType = UNSET
    extra_content: Mapping[str, Any] | UnsetType = UNSET


@final
class ToolMessage(Struct, tag_field="role", tag="tool", gc=False):
    """How a call ended."""

    tool_call_id: str
    content: str
    name: str | UnsetType = UNSET


# What a reply holds, whole or in pieces. Everything may be missing or null somewhere.


@final
class FunctionPiece(Struct, gc=False):
    """More of a call's function."""

    name: str | None = None
    arguments: str | None = None


@final
class CallPiece(Struct, gc=False):
    """More of one call."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    extra_content: dict[str, Any] | None = None


@final
class Piece(Struct, gc=False):
    """A delta of a stream, or the message of a whole reply."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[CallPiece] | None = None
    refusal: str | None = None
    function_call: FunctionPiece | None = None
    images: list[dict[str, Any]] | None = None
    audio: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


@final
class Counts(Struct, gc=False):
    """Tokens, in all the spellings there are."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: dict[str, Any] | None = None
    completion_tokens_details: dict[str, Any] | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


@final
class Choice(Struct, gc=False):
    """One of the answers."""

    index: int | None = None
    delta: Piece | None = None
    message: Piece | None = None
    finish_reason: str | None = None
    usage: Counts | None = None
    error: Any = None


@final
class Groq(Struct, gc=False):
    """Groq's own corner of a chunk."""

    usage: Counts | None = None


@final
class Chunk(Struct, gc=False):
    """A chunk of a stream, or a whole completion."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Counts | None = None
    x_groq: Groq | None = None
    error: Any = None


@final
class Portion(Struct, gc=False):
    """What is worth reading in the common chunk of a stream that has begun."""

    choices: list[Choice] | None = None
    usage: Counts | None = None
    x_groq: Groq | None = None
    error: Any = None


THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields of a message in which servers have reasoning."""

# How servers differ

Flavour: TypeAlias = Callable[[Any], tuple[dict[str, Any], list[str]]]
"""A tool's schema in a target's flavour, and what was lost."""

_SAMPLING = MappingProxyType({"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop"})
_LOCAL_SAMPLING = {**_SAMPLING, "top_k": "top_k", "repeat_penalty": "repeat_penalty"}
_WIDE_SAMPLING = {**_SAMPLING, "top_k": "top_k", "repeat_penalty": "repetition_penalty"}
_OPENAI_FIELDS = frozenset(
    [
        *(
            "audio",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "metadata",
            "modalities",
            "moderation",
            "n",
        ),
        *("prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "response_format"),
        *("prompt_cache_retention", "safety_identifier", "service_tier", "store", "stream_options"),
        *("top_logprobs", "user", "verbosity", "web_search_options"),
    ]
)


@final
class Variant(Struct, frozen=True, kw_only=True):
    """One server that uses this wire. The defaults are what nearly all of them agree on."""

    rules: Rules
    thoughts: Literal["", "reasoning_content", "reasoning"] = "reasoning_content"
    """The field in which reasoning comes, and in which it goes back if it may."""
    inline_thoughts: bool = False
    """Reasoning may stand in `<think>` tags at the start of the text, where no parser took it out."""
    details: bool = False
    """Sealed reasoning goes back as `reasoning_details`."""
    text_parts: bool = False
    """Several texts are sent as parts of one content, not joined into one string."""
    silence: Literal["null", "empty", "omit"] = "null"
    """The content of a message that only calls."""
    result_names: bool = False
    """Results bear their tool's name."""
    schema: Flavour = flavours.object_root
    parameters_optional: bool = False
    """A tool without parameters need not show an (empty) schema; others refuse it (KIM-14, MMX-01)."""
    description_needed: bool = False
    """Also a tool that nobody described must have an (empty) description."""
    strict: bool = True
    """Whether a tool may ask for its schema to be followed to the letter."""
    tools_max: int = 0
    """At most this many tools; 0 is no limit."""
    choices: frozenset[str] = frozenset({"auto", "none", "required", "named"})
    parallel_switch: bool = True
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    sampling: Mapping[str, str] = _SAMPLING
    """Options it knows, by the names it gives them."""
    drawn: frozenset[str] = frozenset({"temperature", "top_p", "top_k", "repeat_penalty"})
    """Those of them that a model with fixed sampling refuses."""
    stream_usage: bool = True
    """Whether a stream reports its usage only when asked to."""
    json_schema: bool = True
    thinking: Literal["", "effort", "switch"] = "effort"
    """How thinking is asked for where nothing is known about the model."""
    effort: str = "reasoning_effort"
    """The field that takes a degree of effort, and below the one that turns thinking on and off."""
    efforts: tuple[str, ...] = ()
    switch: str = ""
    switch_words: tuple[Any, Any] = ("disabled", "enabled")
    budget: str = ""
    always: Mapping[str, Any] = MappingProxyType({})
    """Fields that every request has."""
    fields: frozenset[str] | None = None
    """Further fields it takes; `None` where it does not mind those it does not know."""

    @property
    def name(self) -> str:
        return self.rules.target.dialect


OPENAI = Variant(
    rules=rules.OPENAI_CHAT,
    thoughts="",  # CHAT-50
    text_parts=True,
    limit="max_completion_tokens",  # CHAT-41: every model takes it, newer ones take no other
    parameters_optional=True,
    tools_max=128,  # CHAT-31
    drawn=frozenset({"temperature", "top_p", "stop"}),  # CHAT-41
    fields=_OPENAI_FIELDS,
)
_KIMI = Variant(
    rules=rules.KIMI,
    silence="omit",  # KIM-10
    result_names=True,  # KIM-17
    schema=flavours.kimi,
    strict=False,
    limit="max_completion_tokens",
    thinking="switch",
    switch="thinking.type",  # KIM-08
)
_DEEPSEEK = Variant(
    rules=rules.DEEPSEEK,
    silence="empty",
    sampling={name: field for name, field in _SAMPLING.items() if name != "seed"},
    json_schema=False,
    thinking="switch",
    switch="thinking.type",  # DSK-01
)
_QWEN = Variant(
    rules=rules.QWEN,
    inline_thoughts=True,  # QWN-04
    sampling={**_SAMPLING, "top_k": "top_k"},
    thinking="switch",
    effort="",
    switch="enable_thinking",  # QWN-03
    switch_words=(False, True),
    budget="thinking_budget",
)
_GLM = Variant(
    rules=rules.GLM,
    inline_thoughts=True,
    strict=False,
    choices=frozenset({"auto"}),  # GLM-02
    parallel_switch=False,
    json_schema=False,
    thinking="switch",
    effort="",
    switch="thinking.type",
)
_MINIMAX = Variant(
    rules=rules.MINIMAX,
    inline_thoughts=True,  # MMX-02
    details=True,
    strict=False,
    parallel_switch=False,
    thinking="",
    effort="",
    always={"reasoning_split": True},  # MMX-02: else thoughts come inside the text
)
_XAI = Variant(
    rules=rules.XAI,
    silence="empty",  # XAI-01
    sampling={name: field for name, field in _SAMPLING.items() if name != "stop"},  # XAI-02
    limit="max_completion_tokens",
    efforts=("low", "high"),
)
_GROQ = Variant(
    rules=rules.GROQ,
    thoughts="reasoning",
    inline_thoughts=True,
    silence="empty",
    limit="max_completion_tokens",
)
_OPENROUTER = Variant(
    rules=rules.OPENROUTER,
    thoughts="reasoning",
    details=True,  # ORT-03
    sampling=_WIDE_SAMPLING,
    effort="reasoning.effort",
    budget="reasoning.max_tokens",
)
_VLLM = Variant(
    rules=rules.LOCAL,
    thoughts="reasoning",
    inline_thoughts=True,
    description_needed=True,
    sampling=_WIDE_SAMPLING,
)
_LLAMA_CPP = Variant(
    rules=rules.LLAMA_CPP,
    inline_thoughts=True,
    description_needed=True,
    sampling=_LOCAL_SAMPLING,
    thinking="switch",
    effort="",
    switch="chat_template_kwargs.enable_thinking",
    switch_words=(False, True),
)
_OLLAMA = Variant(
    rules=rules.OLLAMA_V1,
    inline_thoughts=True,
    thoughts="reasoning",  # OLL-35
    result_names=True,  # OLL-34
    schema=flavours.ollama,
    description_needed=True,
    strict=False,
    choices=frozenset(),  # OLL-35: tool_choice is not looked at
    parallel_switch=False,
)
_COMPATIBLE = Variant(rules=rules.COMPATIBLE, inline_thoughts=True)

SERVERS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        OPENAI,
        _KIMI,
        _DEEPSEEK,
        _QWEN,
        _GLM,
        _MINIMAX,
        _XAI,
        _GROQ,
        _OPENROUTER,
        _VLLM,
        _LLAMA_CPP,
        _OLLAMA,
        _COMPATIBLE,
    )
}


def seal_of(extra_content: Mapping[str, Any] | None) -> str:
    """Gemini's thought signature, if one is there."""
    google = extra_content.get("google") if extra_content else None
    signature = google.get("thought_signature") if isinstance(google, Mapping) else None
    return signature if isinstance(signature, str) else ""


def sealed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def encrypted(payload: str) -> dict[str, Any]:
    """The reasoning detail that holds a bare seal."""
    return {"type": "reasoning.encrypted", "data": payload}
