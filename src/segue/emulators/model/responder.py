"""Who answers: a queue of replies, rules by prompt, or an agent that calls the offered tools and finishes."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from segue.emulators.model.model_reply import Call, Offer, Piece, Prompt, Reply, Say, Think

if TYPE_CHECKING:
    from collections.abc import Iterable


class Responder(Protocol):
    """Anything that can answer a prompt."""

    def reply(self, prompt: Prompt) -> Reply: ...

    def reset(self) -> None:
        """Go back to the state at the start."""


class ScriptedResponder:
    """Queued replies first, then the first rule whose pattern is found in the prompt, then the agent."""

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        rules: Iterable[tuple[str, Reply]] = (),
        *,
        seed: int = 0,
    ) -> None:
        self._first_replies, self._first_rules = tuple(replies), tuple(rules)
        self._seed = seed
        self.queue: deque[Reply] = deque()
        self.rules: list[tuple[re.Pattern[str], Reply]] = []
        self.reset()

    def add(self, *replies: Reply) -> None:
        """Queue replies behind those already waiting."""
        self.queue.extend(replies)

    def when(self, pattern: str, reply: Reply) -> None:
        """Answer with `reply` whenever the last user text contains `pattern` and no tool result came after it."""
        self.rules.append((re.compile(pattern, re.DOTALL), reply))

    def reply(self, prompt: Prompt) -> Reply:
        if self.queue:
            return self.queue.popleft()
        if not prompt.results:
            for pattern, reply in self.rules:
                if pattern.search(prompt.text):
                    return reply
        return self._tool_calling.reply(prompt)

    def reset(self) -> None:
        self.queue = deque(self._first_replies)
        self.rules = [(re.compile(pattern, re.DOTALL), reply) for pattern, reply in self._first_rules]
        self._tool_calling = ToolCallingResponder(self._seed)


MAX_DEPTH = 8
_DEEP = MAX_DEPTH // 2
WORDS = ("Paris", "Rome", "blue", "seven", "report", "north")


class ToolCallingResponder:
    """Calls one to three tools at the start of a turn, now and then one more, and then answers in words."""

    def __init__(self, seed: int = 0) -> None:
        # Not for secrets: the same seed must give the same replies.
        self._random = random.Random(seed)  # noqa: S311

    def reply(self, prompt: Prompt) -> Reply:
        pieces: list[Piece] = []
        if prompt.thinking:
            pieces.append(Think(f"The user wants: {_short(prompt.text)}"))
        calls = self._calls(prompt)
        if calls:
            return Reply(pieces=(*pieces, *calls))
        return Reply(pieces=(*pieces, Say(self._answer(prompt))))

    def _answer(self, prompt: Prompt) -> str:
        if prompt.schema is None:
            return _conclusion(prompt)
        return msgspec.json.encode(self.value(prompt.schema, prompt.schema)).decode()

    def _calls(self, prompt: Prompt) -> list[Call]:
        if not prompt.tools:
            return []
        if (
            prompt.results
            and not prompt.must_call
            and (len(prompt.results) > 3 or self._random.random() < 0.8)
        ):
            return []
        most = min(3, len(prompt.tools)) if prompt.parallel and not prompt.results else 1
        chosen = self._random.sample(prompt.tools, self._random.randint(1, most))
        return [self._call(offer) for offer in chosen]

    def _call(self, offer: Offer) -> Call:
        arguments = self.value(offer.schema, offer.schema)
        return Call(offer.name, arguments if isinstance(arguments, dict) else {})

    def value(self, schema: object, root: Mapping[str, Any], depth: int = 0) -> Any:
        """A value that the schema accepts, for the part of JSON Schema that tools use."""
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return None
        schema = _resolved(schema, root)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._random.choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key]:
                # A schema that refers to itself ends with its last choice, mostly null.
                return self.value(schema[key][-1 if depth >= _DEEP else 0], root, depth + 1)
        return self._typed(_kind(schema), schema, root, depth)

    def _typed(self, kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, root, depth)
            case "array":
                amount = max(_bound(schema, "minItems", int(depth < _DEEP)), 0)
                return [self.value(schema.get("items", {}), root, depth + 1) for _ in range(min(amount, 20))]
            case "string":
                return self._string(schema)
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return self._random.random() < 0.5
            case _:
                return None

    def _object(self, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        if not isinstance(properties, Mapping):
            return {}
        return {
            name: self.value(part, root, depth + 1)
            for name, part in properties.items()
            if name in needed or (depth == 0 and self._random.random() < 0.5)
        }

    def _string(self, schema: Mapping[str, Any]) -> str:
        example = {"date": "2026-11-15", "date-time": "2026-11-15T12:00:00Z", "email": "a@example.com"}
        known = example.get(str(schema.get("format")))
        word = known or self._random.choice(WORDS)
        least, most = _bound(schema, "minLength", 0), _bound(schema, "maxLength", 10_000)
        return word.ljust(min(least, 10_000), "x")[: max(most, 0)]

    def _number(self, schema: Mapping[str, Any]) -> int:
        low = _bound(
            schema, "minimum", _bound(schema, "exclusiveMinimum", 0) + ("exclusiveMinimum" in schema)
        )
        high = _bound(schema, "maximum", max(low, low + 9) - ("exclusiveMaximum" in schema))
        return self._random.randint(low, max(low, high))


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _conclusion(prompt: Prompt) -> str:
    if prompt.results:
        return "Done. " + " ".join(f"Result {n}: {_short(text)}" for n, text in enumerate(prompt.results, 1))
    return f"You said: {_short(prompt.text)}" if prompt.text else "How can I help?"


def _bound(schema: Mapping[str, Any], key: str, default: int) -> int:
    value = schema.get(key)
    return int(value) if isinstance(value, (int, float)) and abs(value) < 10**12 else default


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind.lower()
    return "object" if "properties" in schema else "string"


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(step, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) and "$ref" not in found else {}
