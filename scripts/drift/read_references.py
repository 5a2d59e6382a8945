"""Run with the Python of an environment that has the SDKs: prints, as JSON, the fields of requests that may name what is elsewhere,
of the wires that are named, or of all.

Each comes with the smallest request that has it, so that the table of its wire can be asked whether it knows the field.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import re
import sys
import typing
from collections.abc import Iterator

from read_sdks import fields_of, plain  # type: ignore[import-not-found]  # run in another environment

ROOTS = {
    "anthropic": {"": "anthropic.types.beta.message_create_params:MessageCreateParamsBase"},
    "openai_chat": {"": "openai.types.chat.completion_create_params:CompletionCreateParamsBase"},
    "openai_responses": {"": "openai.types.responses.response_create_params:ResponseCreateParamsBase"},
    "gemini": {
        "": "google.genai.types:GenerateContentConfig",
        "contents[]": "google.genai.types:Content",
        "tools[]": "google.genai.types:Tool",
    },
    "gemini_interactions": {
        "": "google.genai.interactions:CreateModelInteraction",
        "?": "google.genai.interactions:CreateAgentInteraction",
    },
    "mistral": {"": "mistralai.client.models:ChatCompletionRequest"},
}
"""Of each wire, by the place of the type in a request; \"?\" is another request of the wire."""
NAMES = re.compile(
    r"(^|_)(ids?|uris?|tokens?|corpora|corpus|stores?|store_names)$|(Id|Ids|Uri|Uris|Corpora|Corpus|StoreNames)$"
    r"|^(container|conversation|agent|environment|cached_content|cachedContent|encrypted_content|server_url|serverUrl)$"
)
"""Of fields that may stand for content."""
HELD = "held-1"
_DEEPEST = 8
_ADDRESS = re.compile(r"[uU]ri$")
_FILE = "https://generativelanguage.googleapis.com/v1beta/files/held-1"


def _literal(kind: object) -> object:
    """The first value of a field that has a few only; None if it may have any."""
    kind = plain(kind)
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[0]
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return None
    found = [_literal(part) for part in typing.get_args(kind) if part is not type(None)]
    return found[0] if len(found) == 1 else None


class Found(typing.NamedTuple):
    """A field, and the smallest value in which it stands."""

    field: str
    """Of its type: `Class.field`."""
    place: str
    value: object
    """All from the outermost type on."""


def found_in(kind: object, field: str, place: str, within: tuple[type, ...]) -> Iterator[Found]:
    kind = plain(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal or (inspect.isclass(origin) and issubclass(origin, dict)):
        return
    if parts:
        is_list = getattr(origin, "__name__", "") in ("list", "Iterable", "Sequence")
        for part in parts:
            for one in found_in(part, field, place + "[]" * is_list, within):
                yield one._replace(value=[one.value]) if is_list else one
    elif kind is str:
        name = field.rpartition(".")[2]
        if NAMES.search(name):
            yield Found(field, place, _FILE if _ADDRESS.search(name) else HELD)
    elif inspect.isclass(kind) and kind not in within and len(within) < _DEEPEST:
        fields = dict(fields_of(kind)) if kind.__module__ != "builtins" else {}
        usual = {name: value for name, held in fields.items() if isinstance(value := _literal(held), str)}
        for name, held in fields.items():
            inner = f"{place}.{name}" if place else name
            for one in found_in(held, f"{kind.__name__}.{name}", inner, (*within, kind)):
                yield one._replace(value={**usual, name: one.value})


def _in_request(place: str, value: object) -> object:
    if place in ("", "?"):
        return value
    return {place.removesuffix("[]"): [value] if place.endswith("[]") else value}


def read(wire: str) -> dict[str, object]:
    """By field and place, the smallest request that has it."""
    requests: dict[str, object] = {}
    for where, root in ROOTS[wire].items():
        module, _, name = root.partition(":")
        start = where.removeprefix("?")
        for one in found_in(getattr(importlib.import_module(module), name), "", start, ()):
            requests.setdefault(f"{one.field} at {one.place}", _in_request(where, one.value))
    return requests


if __name__ == "__main__":
    json.dump({wire: read(wire) for wire in sys.argv[1:] or ROOTS}, sys.stdout)
