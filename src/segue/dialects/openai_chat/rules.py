"""What OpenAI Chat and the servers that use its wire demand."""

from __future__ import annotations

import string

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.transcript.client_wire import ClientWire
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

HELD_FILE = "file-id:"
"""How we write the address of a file that the provider holds."""
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_USER_IMAGES = MediaRules(user=_IMAGES, urls=frozenset({"image"}))
_USER_DATA_IMAGES = MediaRules(user=frozenset({"image/png", "image/jpeg", "image/webp"}))
# Recorded: servers issue ids such as `functions.weather:0`, or of 48 characters, and take their own back.
_ISSUED = SAFE_CHARACTERS + ".:"
_LETTER_FIRST = NameGrammar(first=string.ascii_letters + "_")

OPENAI_CHAT = Rules(
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
    OPENAI_CHAT,
    ids=IdGrammar(max_length=64, characters=_ISSUED),
    media=_USER_IMAGES,
    opens_with_user=True,
    ends_with_model=False,
    blank_text=False,
    instructions="user",
)
"""What nearly every compatible server accepts."""


def _named(rules: Rules, dialect: str, home: str | None = None) -> Rules:
    """`home`: its own provider, where that has another name; empty if it has none."""
    return structs.replace(rules, target=Origin(dialect), home=dialect if home is None else home)


KIMI = structs.replace(
    _named(_STRICTER, "kimi"),
    ids=IdGrammar(form="indexed", prefix="functions.", max_length=128),  # KIM-01, KIM-04
    names=_LETTER_FIRST,  # KIM-13
    reasoning=ReasoningRules(replay="plain", required="calls", filler=" "),  # KIM-07
    opens_with_user=False,
    instructions="inline",  # KIM-18
)
DEEPSEEK = structs.replace(
    _named(_STRICTER, "deepseek"),
    reasoning=ReasoningRules(replay="plain", required="all", filler=" "),  # DSK-01
    media=MediaRules(),  # DSK-04: content is text
    instructions="inline",
)
QWEN = _named(_STRICTER, "qwen")  # VLM-05: a user message there must be, a system message first or nowhere
GLM = _named(_STRICTER, "glm")  # GLM-01
MINIMAX = structs.replace(
    _named(_STRICTER, "minimax"),
    # MMX-02: with its thoughts apart from the text, its documentation wants them back as they came.
    reasoning=ReasoningRules(replay="sealed"),
)
XAI = _named(_STRICTER, "xai")  # XAI-01: no message without content
GROQ = _named(_STRICTER, "groq")
OPENROUTER = structs.replace(
    _named(_STRICTER, "openrouter"),
    reasoning=ReasoningRules(replay="sealed"),  # ORT-03: reasoning_details go back as they came
)
LOCAL = structs.replace(  # VLM-02…06: what the strict chat templates of local servers agree on
    _named(_STRICTER, "vllm"),
    ids=NINE_CHARACTERS,  # VLM-03
    alternates=True,
    bridge=BRIDGE,
)
LLAMA_CPP = _named(LOCAL, "llama_cpp", "llama.cpp")
OLLAMA_V1 = structs.replace(
    _named(_STRICTER, "ollama_v1", "ollama"),
    media=_USER_DATA_IMAGES,  # OLL-33
    reasoning=ReasoningRules(replay="plain"),
    alternates=True,
)
COMPATIBLE = _named(_STRICTER, "openai_compatible", "")

VARIANTS: tuple[Rules, ...] = (
    OPENAI_CHAT,
    KIMI,
    DEEPSEEK,
    QWEN,
    GLM,
    MINIMAX,
    XAI,
    GROQ,
    OPENROUTER,
    LOCAL,
    LLAMA_CPP,
    OLLAMA_V1,
    COMPATIBLE,
)


_REFUSE_THOUGHTS = (
    OPENAI_CHAT,
    GROQ,
    XAI,
)  # CHAT-50, GRQ-02: a field of thoughts in the history is not known there


def client_of(rules: Rules) -> ClientWire:
    """What clients of a server can be given: thoughts too, where it reads or skips them when they come back."""
    return ClientWire(
        rules=rules,
        reply_prefix="chatcmpl-",
        plain_reasoning=rules not in _REFUSE_THOUGHTS,
        media=frozenset({"image/*"} if rules in (OPENAI_CHAT, OPENROUTER) else ()),
        empty=rules.blank_text,
    )
