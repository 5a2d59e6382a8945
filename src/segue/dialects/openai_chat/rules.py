"""What OpenAI Chat and the servers that use its wire demand, and how each of them differs, as data."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.dialects.schemas import flavours
from segue.transcript.rules import (
    BRIDGE,
    NINE_CHARACTERS,
    SAFE_CHARACTERS,
    IdGrammar,
    MediaRules,
    NameGrammar,
    ReasoningRules,
    Rules,
)

Flavour: TypeAlias = Callable[[Any], tuple[dict[str, Any], list[str]]]
"""A tool's schema in a target's flavour, and what was lost."""

HELD_FILE = "file-id:"
"""How we write the address of a file that the provider holds."""
_SAMPLING = MappingProxyType({"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop"})
_LOCAL_SAMPLING = {**_SAMPLING, "top_k": "top_k", "repeat_penalty": "repeat_penalty"}
_WIDE_SAMPLING = {**_SAMPLING, "top_k": "top_k", "repeat_penalty": "repetition_penalty"}


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
    reads_thoughts: bool = True
    """Whether it reads or skips thoughts that come back in a history, so that its clients may be given them."""
    shows_images: bool = False
    developer: bool = True
    """Whether it knows the role `developer`, which means the same as `system`."""

    @property
    def name(self) -> str:
        return self.rules.target.dialect


_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# Recorded: servers issue ids such as `functions.weather:0`, or of 48 characters, and take their own back.
_ISSUED = SAFE_CHARACTERS + ".:"

_OPENAI_RULES = Rules(
    target=Origin("openai_chat"),
    home="openai",
    ids=IdGrammar(max_length=40, characters=_ISSUED),  # CHAT-20: 64 today, 40 on older deployments
    names=NameGrammar(),  # CHAT-21
    reasoning=ReasoningRules(),  # CHAT-50: there is no field to send it back in
    media=MediaRules(  # CHAT-52, CHAT-53: the user alone shows media
        user=_IMAGES | {"application/pdf", "audio/wav", "audio/mp3", "audio/mpeg"},
        urls=frozenset({"image"}),
        held=HELD_FILE,
    ),
    calls_last=True,  # content and calls are two fields: their order is not sent
    instructions="inline",  # CHAT-01
    calls_after_calls=False,  # CHAT-10
)

_STRICTER = structs.replace(
    _OPENAI_RULES,
    ids=IdGrammar(max_length=64, characters=_ISSUED),
    media=MediaRules(user=_IMAGES, urls=frozenset({"image"})),
    opens_with_user=True,
    ends_with_model=False,
    blank_text=False,
    instructions="user",
)
"""What nearly every compatible server accepts."""


def _stricter(dialect: str, *, home: str | None = None, **changed: Any) -> Rules:
    """`home`: its own provider, where that has another name; empty if it has none."""
    return structs.replace(
        _STRICTER, target=Origin(dialect), home=dialect if home is None else home, **changed
    )


def _local(dialect: str, **changed: Any) -> Rules:
    """VLM-02…06: what the strict chat templates of local servers agree on."""
    return _stricter(dialect, ids=NINE_CHARACTERS, alternates=True, bridge=BRIDGE, **changed)  # VLM-03


OPENAI = Variant(
    rules=_OPENAI_RULES,
    thoughts="",  # CHAT-50
    text_parts=True,
    limit="max_completion_tokens",  # CHAT-41: every model takes it, newer ones take no other
    parameters_optional=True,
    tools_max=128,  # CHAT-31
    drawn=frozenset({"temperature", "top_p", "stop"}),  # CHAT-41
    fields=frozenset(
        {"audio", "frequency_penalty", "logit_bias", "logprobs", "metadata", "modalities", "moderation", "n"}
        | {"prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "response_format"}
        | {"prompt_cache_retention", "safety_identifier", "service_tier", "store", "stream_options"}
        | {"top_logprobs", "user", "verbosity", "web_search_options"}
    ),
    reads_thoughts=False,  # CHAT-50
    shows_images=True,
)
_OTHERS = (
    Variant(
        rules=_stricter(
            "kimi",
            ids=IdGrammar(form="indexed", prefix="functions.", max_length=128),  # KIM-01, KIM-04
            names=NameGrammar(first=string.ascii_letters + "_"),  # KIM-13
            reasoning=ReasoningRules(replay="plain", required="calls", filler=" "),  # KIM-07
            opens_with_user=False,
            instructions="inline",  # KIM-18
        ),
        silence="omit",  # KIM-10
        result_names=True,  # KIM-17
        schema=flavours.kimi,
        strict=False,
        limit="max_completion_tokens",
        thinking="switch",
        switch="thinking.type",  # KIM-08
        developer=False,
    ),
    Variant(
        rules=_stricter(
            "deepseek",
            reasoning=ReasoningRules(replay="plain", required="all", filler=" "),  # DSK-01
            media=MediaRules(),  # DSK-04: content is text
            instructions="inline",
        ),
        silence="empty",
        sampling={name: field for name, field in _SAMPLING.items() if name != "seed"},
        json_schema=False,
        thinking="switch",
        switch="thinking.type",  # DSK-01
        developer=False,  # DSK-04
    ),
    Variant(
        rules=_stricter("qwen"),  # VLM-05: a user message there must be, a system message first or nowhere
        inline_thoughts=True,  # QWN-04
        sampling={**_SAMPLING, "top_k": "top_k"},
        thinking="switch",
        effort="",
        switch="enable_thinking",  # QWN-03
        switch_words=(False, True),
        budget="thinking_budget",
    ),
    Variant(
        rules=_stricter("glm"),  # GLM-01
        inline_thoughts=True,
        strict=False,
        choices=frozenset({"auto"}),  # GLM-02
        parallel_switch=False,
        json_schema=False,
        thinking="switch",
        effort="",
        switch="thinking.type",
    ),
    Variant(
        # MMX-02: with its thoughts apart from the text, its documentation wants them back as they came.
        rules=_stricter("minimax", reasoning=ReasoningRules(replay="sealed")),
        inline_thoughts=True,  # MMX-02
        details=True,
        strict=False,
        parallel_switch=False,
        thinking="",
        effort="",
        always={"reasoning_split": True},  # MMX-02: else thoughts come inside the text
    ),
    Variant(
        rules=_stricter("xai"),  # XAI-01: no message without content
        silence="empty",  # XAI-01
        sampling={name: field for name, field in _SAMPLING.items() if name != "stop"},  # XAI-02
        limit="max_completion_tokens",
        efforts=("low", "high"),
        reads_thoughts=False,
    ),
    Variant(
        rules=_stricter("groq"),
        thoughts="reasoning",
        inline_thoughts=True,
        silence="empty",
        limit="max_completion_tokens",
        reads_thoughts=False,  # GRQ-02: a field of thoughts in the history is not known there
    ),
    Variant(
        # ORT-03: reasoning_details go back as they came
        rules=_stricter("openrouter", reasoning=ReasoningRules(replay="sealed")),
        thoughts="reasoning",
        details=True,
        sampling=_WIDE_SAMPLING,
        effort="reasoning.effort",
        budget="reasoning.max_tokens",
        shows_images=True,
    ),
    Variant(
        rules=_local("vllm"),
        thoughts="reasoning",
        inline_thoughts=True,
        description_needed=True,
        sampling=_WIDE_SAMPLING,
    ),
    Variant(
        rules=_local("llama_cpp", home="llama.cpp"),
        inline_thoughts=True,
        description_needed=True,
        sampling=_LOCAL_SAMPLING,
        thinking="switch",
        effort="",
        switch="chat_template_kwargs.enable_thinking",
        switch_words=(False, True),
    ),
    Variant(
        rules=_stricter(
            "ollama_v1",
            home="ollama",
            media=MediaRules(user=frozenset({"image/png", "image/jpeg", "image/webp"})),  # OLL-33
            reasoning=ReasoningRules(replay="plain"),
            alternates=True,
        ),
        inline_thoughts=True,
        thoughts="reasoning",  # OLL-35
        result_names=True,  # OLL-34
        schema=flavours.ollama,
        description_needed=True,
        strict=False,
        choices=frozenset(),  # OLL-35: tool_choice is not looked at
        parallel_switch=False,
    ),
    Variant(rules=_stricter("openai_compatible", home=""), inline_thoughts=True),
)

SERVERS: Mapping[str, Variant] = {variant.name: variant for variant in (OPENAI, *_OTHERS)}
