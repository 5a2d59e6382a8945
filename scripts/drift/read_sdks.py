"""Run with the Python of an environment that has the SDKs: prints, as JSON, the words of each wire and where they stand.

A word is the name of a field of a request, or a value that a field may have anywhere in a request or a reply: a type of a block
or an event, a reason, a role, a beta. Fields inside of blocks are no words: wires pass on those that they do not know.
"""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import inspect
import json
import sys
import typing
from collections.abc import Iterator

ROOTS = {
    "anthropic": (
        "anthropic",
        "anthropic.types.beta.message_create_params:MessageCreateParamsBase",
        "anthropic.types.beta:BetaMessage",
        "anthropic.types.beta:BetaRawMessageStreamEvent",
        "anthropic.types:AnthropicBetaParam",
        "anthropic.types:BetaErrorResponse",
    ),
    "openai_chat": (
        "openai",
        "openai.types.chat.completion_create_params:CompletionCreateParamsBase",
        "openai.types.chat:ChatCompletion",
        "openai.types.chat:ChatCompletionChunk",
    ),
    "openai_responses": (
        "openai",
        "openai.types.responses.response_create_params:ResponseCreateParamsBase",
        "openai.types.responses:Response",
        "openai.types.responses:ResponseStreamEvent",
    ),
    "gemini": (
        "google-genai",
        "google.genai.types:GenerateContentConfig",
        "google.genai.types:Content",
        "google.genai.types:GenerateContentResponse",
    ),
    "mistral": (
        "mistralai",
        "mistralai.client.models:ChatCompletionRequest",
        "mistralai.client.models:ChatCompletionResponse",
        "mistralai.client.models:CompletionChunk",
    ),
    "ollama": ("ollama", "ollama._types:ChatRequest", "ollama._types:ChatResponse", "ollama._types:Options"),
}
REQUEST = "request"
"""Where the first of the roots stands."""
_NOT_SENT = {
    "automaticFunctionCalling",
    "httpOptions",
    "parsed",
    "sdkHttpResponse",
    "shouldReturnHttpResponse",
    "workspace_id",
}
"""Fields of SDKs that never stand in a body: they are headers, or the SDK reads them itself."""


class Reader:
    """Collects words, each type once."""

    def __init__(self, *, camel: bool) -> None:
        self.words: dict[str, set[str]] = {}
        self._seen: set[int] = set()
        self._camel = camel

    def read(self, kind: object, where: str) -> None:
        kind = plain(kind)
        for part in typing.get_args(kind):
            if typing.get_origin(kind) is typing.Literal:
                self._note(part, where)
            elif not isinstance(part, (str, int, bool)):
                self.read(part, where)
        if inspect.isclass(kind) and id(kind) not in self._seen:
            self._seen.add(id(kind))
            self._read_class(kind, where)

    def _read_class(self, kind: type, where: str) -> None:
        if issubclass(kind, enum.Enum):
            for member in kind:
                self._note(member.value, kind.__name__)
            return
        for name, annotation in fields_of(kind):
            if name in _NOT_SENT or name.startswith("_"):
                continue
            if where == REQUEST:
                self._note(_camel(name) if self._camel else name, REQUEST)
            if name != "model":
                self.read(annotation, f"{kind.__name__}.{name}")

    def _note(self, word: object, where: str) -> None:
        if isinstance(word, str) and word:
            self.words.setdefault(word, set()).add(where)


def plain(kind: object) -> object:
    while typing.get_origin(kind) in (typing.Annotated, typing.Required, typing.NotRequired):
        kind = typing.get_args(kind)[0]
    # Of an alias with arguments the arguments are read.
    supertype = None if typing.get_args(kind) else getattr(kind, "__value__", None)
    return plain(supertype) if supertype is not None else kind


def fields_of(kind: type) -> Iterator[tuple[str, object]]:
    if kind.__module__ == "builtins":
        return
    models = getattr(kind, "model_fields", None)
    if isinstance(models, dict):
        for name, field in models.items():
            yield field.alias or name, field.annotation
    elif hasattr(kind, "__required_keys__"):  # a TypedDict, of typing or of typing_extensions
        try:
            yield from typing.get_type_hints(kind, include_extras=True).items()
        except (NameError, TypeError):  # a type that only a type checker imports
            yield from ((name, str) for name in kind.__annotations__)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def main() -> None:
    told = {}
    for wire, (package, *roots) in ROOTS.items():
        reader = Reader(camel=wire == "gemini")
        for root in roots:
            module, _, name = root.partition(":")
            reader.read(getattr(importlib.import_module(module), name), REQUEST if root == roots[0] else name)
        words = {word: sorted(places) for word, places in sorted(reader.words.items())}
        told[wire] = {"sdk": package, "version": importlib.metadata.version(package), "words": words}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
