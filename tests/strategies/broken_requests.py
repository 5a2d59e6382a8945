"""Requests of one wire, broken in the ways in which clients, proxies and editors break them: a value of the wrong type, a
missing or foreign field, media and calls where none may stand, seals that are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any, Final, TypeAlias

from strategies.odd_messages import IMAGE

Body: TypeAlias = dict[str, Any]
Break: TypeAlias = Callable[[Random, str, Body], None]
"""Breaks a body of a wire in place; does nothing where there is nothing to break."""

MESSAGES: Final[Mapping[str, str]] = {
    "openai_responses": "input",
    "gemini": "contents",
    "gemini_interactions": "input",
}
_IDS = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "toolUseId"})
_ARGUMENTS = frozenset({"arguments", "input", "args"})
_CONTENT = frozenset({"content", "output", "parts", "response"})
_SEALS = frozenset({"signature", "encrypted_content", "thoughtSignature", "thought_signature", "data"})
_WRONG: Final[tuple[Any, ...]] = (None, 7, "", [], {}, True, "text", 0.5, ["text"], {"a": 1}, [None])
_FOREIGN: Final[tuple[tuple[str, Any], ...]] = (
    ("index", 0),
    ("cache_control", {"type": "ephemeral"}),
    ("cache_control", 5),
    ("status", "completed"),
    ("status", "gone"),
    ("id", "item_1"),
    ("id", 5),
    ("name", "Ann"),
    ("refusal", None),
    ("refusal", "I will not."),
    ("annotations", []),
    ("citations", None),
    ("signature", "c2VhbGVk"),
    ("thought", True),
    ("thoughtSignature", 3),
    ("reasoning_content", "So."),
    ("reasoning_content", ""),
    ("reasoning_details", []),
    ("is_error", "no"),
    ("tool_calls", []),
    ("function_call", None),
    ("prefix", True),
    ("images", []),
    ("audio", None),
    ("audio", {"id": "audio_1", "transcript": "So."}),
    ("phase", "commentary"),
    ("type", "text"),
    ("type", "unheard_of"),
    ("newer_than_this", {"some": ["value"]}),
)
"""Fields of other wires, with values that theirs take and others."""


def items_of(wire: str, body: Body) -> list[Any]:
    found = body.get(MESSAGES.get(wire, "messages"))
    return found if isinstance(found, list) else []


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value, but those that are free: what a tool is given and what its schema is."""
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)
    elif isinstance(value, dict):
        yield value
        for name, held in value.items():
            if name not in _ARGUMENTS | {"response", "action", "operation"}:
                yield from _objects(held)


def _places(wire: str, body: Body, names: frozenset[str]) -> list[tuple[dict[str, Any], str]]:
    return [(held, name) for held in _objects(items_of(wire, body)) for name in held if name in names]


def _in_fields(names: frozenset[str]) -> Break:
    def break_one(random: Random, wire: str, body: Body) -> None:
        places = _places(wire, body, names)
        if places:
            held, name = random.choice(places)
            _spoil(random, held, name)

    return break_one


def _spoil(random: Random, held: dict[str, Any], name: str) -> None:
    if random.random() < 0.25:
        del held[name]
    elif random.random() < 0.2:
        held[name] = _in_other_form(held[name])
    else:
        held[name] = deepcopy(random.choice(_WRONG))


def _in_other_form(value: Any) -> Any:
    """Text for an object, an object for text, a list for a single value."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return [{"type": "text", "text": value}]
    return json.dumps(value) if isinstance(value, dict) else [value]


def _any_field(random: Random, wire: str, body: Body) -> None:
    objects = [held for held in _objects(items_of(wire, body)) if held]
    if objects:
        held = random.choice(objects)
        _spoil(random, held, random.choice(list(held)))


def _foreign_field(random: Random, wire: str, body: Body) -> None:
    objects = list(_objects(items_of(wire, body)))
    if objects:
        name, value = random.choice(_FOREIGN)
        random.choice(objects).setdefault(name, deepcopy(value))


def _no_seals(random: Random, wire: str, body: Body) -> None:
    del random
    for held, name in _places(wire, body, _SEALS):
        if name != "data" or held.get("type") == "redacted_thinking":
            del held[name]


def _bad_seal(random: Random, wire: str, body: Body) -> None:
    places = _places(wire, body, _SEALS - {"data"})
    if places:
        held, name = random.choice(places)
        held[name] = deepcopy(random.choice((None, 7, "", [], {})))


_URL = f"data:image/png;base64,{IMAGE}"
_PICTURES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "image_url", "image_url": {"url": _URL}},
    {"type": "image_url", "image_url": _URL},
    {"type": "input_image", "image_url": _URL},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
    {"inlineData": {"mimeType": "image/png", "data": IMAGE}},
    {"image": {"format": "png", "source": {"bytes": IMAGE}}},
    {"type": "image", "data": IMAGE, "mime_type": "image/png"},
)
_OF_WIRE: Final[Mapping[str, int]] = {
    "openai_responses": 2,
    "anthropic": 3,
    "gemini": 4,
    "mistral": 1,
    "converse": 5,
    "gemini_interactions": 6,
}


def _picture(random: Random, wire: str, body: Body) -> None:
    """A picture in any message: of a tool, of the model, of the operator."""
    picture = deepcopy(_PICTURES[_OF_WIRE.get(wire, 0)])
    messages = [item for item in items_of(wire, body) if isinstance(item, dict)]
    if not messages:
        return
    message = random.choice(messages)
    field = next((name for name in ("content", "parts", "output") if name in message), "content")
    if wire == "ollama":
        message["images"] = [IMAGE]
        return
    held = message.get(field)
    if isinstance(held, list):
        held.insert(random.randrange(len(held) + 1), picture)
    elif isinstance(held, str):
        kind = "input_text" if wire == "openai_responses" else "text"
        message[field] = [{"type": kind, "text": held}, picture]


def _calls_anywhere(random: Random, wire: str, body: Body) -> None:
    """Calls in a message of a tool or of the user."""
    messages = [item for item in items_of(wire, body) if isinstance(item, dict)]
    called: list[Any] = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    if wire == "anthropic":
        used: list[Any] = [block for block in _objects(messages) if block.get("type") == "tool_use"]
        content = random.choice(messages).get("content") if messages else None
        if used and isinstance(content, list):
            content.append({**deepcopy(random.choice(used)), "id": "toolu_elsewhere"})
    elif wire == "converse":
        named: list[Any] = [block["toolUse"] for block in _objects(messages) if "toolUse" in block]
        content = random.choice(messages).get("content") if messages else None
        if named and isinstance(content, list) and isinstance(used := random.choice(named), dict):
            content.append({"toolUse": {**deepcopy(used), "toolUseId": "tooluse_elsewhere"}})
    elif called and wire not in ("gemini", "openai_responses"):
        calls = deepcopy(random.choice(called))
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                call["id"] = "call_elsewhere"
        random.choice(messages)["tool_calls"] = calls


def _system(random: Random, wire: str, body: Body) -> None:
    """The system prompt in a form that other wires have."""
    field = {
        "gemini": "systemInstruction",
        "gemini_interactions": "system_instruction",
        "openai_responses": "instructions",
    }.get(wire, "system")
    if wire in ("gemini", "anthropic"):
        form: Any = random.choice(
            ("Be kind.", [{"type": "text", "text": "Be kind."}], None, "", {"parts": "x"})
        )
        if wire == "anthropic" and isinstance(form, dict):
            form = [{"type": "text", "text": "Be kind.", "index": 1}]
        if wire == "gemini" and isinstance(form, list):
            form = {"role": "system", "parts": [{"text": "Be kind.", "index": 1}]}
        body[field] = form
    elif wire == "converse":
        body[field] = random.choice(
            ("Be kind.", [{"text": "Be kind."}, {"cachePoint": {"type": "default"}}], None, [])
        )
    elif wire != "openai_responses":
        content: Any = random.choice(([{"type": "text", "text": "Be kind."}], None, "", [], ["Be kind."]))
        items_of(wire, body).insert(0, {"role": random.choice(("system", "developer")), "content": content})


def _store(random: Random, wire: str, body: Body) -> None:
    if wire == "openai_responses":
        body["store"] = random.choice((True, False))


def _tool(random: Random, wire: str, body: Body) -> None:
    """Something about the tools that are offered."""
    tools = body.get("toolConfig", body).get("tools")
    objects = list(_shallow(tools)) if isinstance(tools, list) else []
    if not objects:
        return
    held = random.choice(objects)
    name, value = random.choice(
        (
            ("newer_than_this", {"some": 1}),
            ("cache_control", {"type": "ephemeral"}),
            ("strict", None),
            ("description", None),
            ("type", None),
            ("index", 0),
        )
    )
    if value is None and name in held and random.random() < 0.5:
        del held[name]
    else:
        held[name] = deepcopy(value)


def _shallow(tools: list[Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        if isinstance(tool, dict):
            yield tool
            for name in ("function", "toolSpec"):
                if isinstance(tool.get(name), dict):
                    yield tool[name]
            for declared in tool.get("functionDeclarations") or ():
                if isinstance(declared, dict):
                    yield declared


BREAKS: Final[Mapping[str, Break]] = {
    "id": _in_fields(_IDS),
    "arguments": _in_fields(_ARGUMENTS),
    "content": _in_fields(_CONTENT),
    "foreign field": _foreign_field,
    "seals gone": _no_seals,
    "seal": _bad_seal,
    "picture": _picture,
    "calls": _calls_anywhere,
    "system": _system,
    "store": _store,
    "tool": _tool,
    "field": _any_field,
}


def broken(random: Random, wire: str, body: Body, *, most: int = 3) -> tuple[Body, list[str]]:
    """A copy of the body with some faults, and which they are."""
    body = deepcopy(body)
    names = [random.choice(list(BREAKS)) for _ in range(random.randrange(1, most + 1))]
    for name in names:
        BREAKS[name](random, wire, body)
    return body, names
