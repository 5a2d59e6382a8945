"""Every dialect by the name it has on the command line. A dialect is loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from typing import Any, Final, final

from segue.dialects.dialect import Dialect
from segue.errors import UsageError
from segue.text.suggestions import suggestion

SERVERS: Final = files(__package__) / "openai_chat" / "servers"
"""A file for each server of the Chat wire."""
CHAT_NAMES: Final = sorted(file.name.removesuffix(".toml") for file in SERVERS.iterdir())
_FOLDERS: Final[Mapping[str, str]] = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "gemini": "gemini",
    "gemini_interactions": "gemini_interactions",
    "mistral": "openai_chat.mistral",
    "ollama": "openai_chat.ollama",
    "converse": "converse",
    **dict.fromkeys(CHAT_NAMES, "openai_chat"),
}
NAMES: Final[tuple[str, ...]] = tuple(_FOLDERS)

ALIASES: Final[Mapping[str, str]] = {
    "openai": "openai_chat",
    "chat_completions": "openai_chat",
    "responses": "openai_responses",
    "anthropic_messages": "anthropic",
    "claude": "anthropic",
    "google": "gemini",
    "interactions": "gemini_interactions",
    "moonshot": "kimi",
    "zai": "glm",
    "grok": "xai",
    "bedrock": "converse",
    "bedrock_converse": "converse",
    "llama.cpp": "llama_cpp",
}
"""Other names that people type."""

WIRES: Final[tuple[str, ...]] = (
    "gemini_interactions",
    "openai_responses",
    "gemini",
    "converse",
    "anthropic",
    "ollama",
    "mistral",
    "openai_chat",
)
"""The wire formats by which a request is recognised. Of two that are equally sure, the earlier one is meant: those
with marks of their own come first, and the one that many servers share comes last."""


def proper_name(name: str) -> str:
    """The name of a dialect as we write it; refuses what is none."""
    proper = name.strip().lower().replace("-", "_")
    proper = ALIASES.get(proper, proper)
    if proper in _FOLDERS:
        return proper
    raise UsageError(
        f'There is no dialect "{name}".',
        code="unknown_dialect",
        hint=f"{suggestion(proper, (*NAMES, *ALIASES))} Known are: {', '.join(NAMES)}.".lstrip(),
    )


def is_form_of(name: str, wire: str) -> bool:
    """Whether a dialect is this wire format, as it is or in a server's own form of it."""
    return _FOLDERS.get(name, "") == _FOLDERS[wire]


@final
class _Dialects(Mapping[str, Dialect]):
    def __init__(self) -> None:
        self._loaded: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> Dialect:
        loaded = self._loaded.get(name)
        if loaded is None:
            module = import_module(f"{__package__}.{_FOLDERS[name]}")
            loaded = module.DIALECT if hasattr(module, "DIALECT") else module.dialect(name)
            self._loaded[name] = loaded
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)

    def __contains__(self, name: object) -> bool:
        return name in _FOLDERS


DIALECTS: Final[Mapping[str, Dialect]] = _Dialects()
"""Every wire format by name."""


def recognise(body: Mapping[str, Any]) -> str:
    """The wire format of a request body; empty if no dialect recognises it. The surest of `WIRES` is meant."""
    best, surest = "", 0.0
    for name in WIRES:
        sureness = DIALECTS[name].recognises(body)
        if sureness > surest:
            best, surest = name, sureness
    return best
