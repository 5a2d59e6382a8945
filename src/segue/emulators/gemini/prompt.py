"""A request as the model reads it: segments in the order of the prompt, their size, and what a responder may know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.gemini import contents
from segue.emulators.model.model_reply import Offer, Prompt
from segue.emulators.model.prompt_cache import plain

if TYPE_CHECKING:
    from segue.emulators.gemini.contents import Body
    from segue.emulators.rules import Context


def segments(body: Body) -> list[object]:
    """System, tools, contents: each change keeps what stands before it in the cache."""
    found: list[object] = [_plain(body[key]) for key in ("system_instruction", "tools") if key in body]
    for content in contents.contents_of(body):
        found += [[content.role, _plain(part)] for part in content.parts]
    return found


def _plain(value: Any) -> Any:
    return plain(value, media="data", seal="thought_signature")


def thinks(body: Body, context: Context) -> bool:
    """Thinking models think unless their budget is nought."""
    budget = contents.settings_of(body).get("thinking_config", {}).get("thinking_budget")
    return bool(context.facts.get("thinks")) and budget not in (0, "0")


def prompt(body: Body, context: Context) -> Prompt:
    text, results = _last_words(body)
    mode = contents.calling_of(body).get("mode", "AUTO")
    return Prompt(
        provider="gemini",
        model=context.model,
        text=text,
        results=results,
        tools=() if mode == "NONE" else tuple(_offers(body)),
        must_call=mode == "ANY",
        schema=_schema(contents.settings_of(body)),
        thinking=thinks(body, context),
    )


def _schema(settings: Body) -> Body | None:
    plain, own = settings.get("response_json_schema"), settings.get("response_schema")
    if isinstance(plain, Mapping):
        return plain
    return json_schema(own) if isinstance(own, Mapping) else None


def _offers(body: Body) -> Iterator[Offer]:
    allowed = contents.calling_of(body).get("allowed_function_names")
    for _, declaration in contents.declarations_of(body):
        name = declaration.get("name", "")
        schema = declaration.get("parameters_json_schema") or json_schema(declaration.get("parameters", {}))
        if not allowed or name in allowed:
            yield Offer(name, schema if isinstance(schema, Mapping) else {})


def json_schema(schema: Body) -> dict[str, Any]:
    """A schema of this dialect in the words of JSON Schema."""
    found: dict[str, Any] = {
        key: schema[key] for key in ("description", "enum", "format", "required") if key in schema
    }
    if "type" in schema:
        found["type"] = schema["type"].lower()
    if "properties" in schema:
        found["properties"] = {name: json_schema(inner) for name, inner in schema["properties"].items()}
    if "items" in schema:
        found["items"] = json_schema(schema["items"])
    if "any_of" in schema:
        found["anyOf"] = [json_schema(inner) for inner in schema["any_of"]]
    return found


def _last_words(body: Body) -> tuple[str, tuple[str, ...]]:
    """The user's last text, and the results that came after it."""
    results: list[str] = []
    for content in reversed(contents.contents_of(body)):
        if content.role == "model":
            continue
        texts = [part["text"] for part in content.parts if part.get("text")]
        new = [msgspec.json.encode(response.get("response")).decode() for _, response in content.responses]
        results = [*new, *results]
        if texts:
            return "\n".join(texts), tuple(results)
    return "", tuple(results)
