"""`cachedContents`: system, tools and contents that the server holds, and requests that build on them (CCH-01, CCH-02)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from segue.emulators.admission import permitted
from segue.emulators.gemini import errors, messages, proto
from segue.emulators.gemini.prompt import segments
from segue.emulators.gemini.typed_contents import Body, refused
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response
from segue.emulators.prompt_cache import size
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
HELD = "cached_contents"
"""Of the memory: name → what was sent, and the record that is shown."""
LIFE = 3600
_SHARED = ("system_instruction", "tools", "tool_config")
_CONTENT = ("contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config")


def _cached(body: Body, context: Context) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = context.memory.get(HELD, {}).get(body.get("cached_content"))
    return found["content"] if found is not None else None


def whole(body: Body, context: Context) -> Body:
    """A request as the model reads it. It cannot be read back in any other way."""
    cached = _cached(body, context) if body.get("cached_content") else None
    if cached is None:
        return body
    shared = {name: cached[name] for name in _SHARED if name in cached}
    return {**body, **shared, "contents": [*cached.get("contents", ()), *body.get("contents", ())]}


@rule("CCH-02")
def complaints(body: Body, context: Context) -> Complaints:
    name = body.get("cached_content")
    if not name or HELD not in context.memory:
        return
    cached = _cached(body, context)
    if cached is None:
        text = "CachedContent not found (or permission denied)"
        yield Refusal("CCH-02", text, status=403, type="PERMISSION_DENIED")
        return
    if any(name in body for name in _SHARED):
        yield refused(
            "CCH-02",
            "CachedContent can not be used with GenerateContent request setting system_instruction, tools or"
            " tool_config. Proposed fix: move those values to CachedContent from GenerateContent request.",
        )
    if cached["model"].removeprefix("models/") != context.model:
        used = f"Model used by GenerateContent request (models/{context.model})"
        yield refused("CCH-02", f"{used} and CachedContent ({cached['model']}) has to be the same.")


@rule("CCH-01")
def create(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, PROVIDER, errors)
    try:
        given = request.json()
    except BadJsonError as error:
        raise RefusedError(errors.not_json(request.body, str(error)), context) from error
    given = given if isinstance(given, dict) else {}
    reader = proto.Reader(messages.MESSAGES, messages.ENUMS)
    body = reader.message({name: given[name] for name in _CONTENT if name in given}, "GenerateContentRequest")
    body["model"] = given.get("model")
    if not isinstance(body["model"], str):
        raise RefusedError(
            refused("CCH-01", "* CreateCachedContentRequest.model: model is required"), context
        )
    name = f"cachedContents/{context.reply_id}"
    record = {
        "name": name,
        "model": body["model"],
        "createTime": _time(context.now),
        "expireTime": _time(context.now + LIFE),
        "usageMetadata": {"totalTokenCount": size(segments(body))},
    }
    emulator.memory(PROVIDER).setdefault(HELD, {})[name] = {"content": body, "record": record}
    return json_response(record)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _found(request: Request, emulator: Emulator) -> dict[str, Any]:
    context = permitted(request, emulator, PROVIDER, errors)
    held: dict[str, dict[str, Any]] = emulator.memory(PROVIDER).get(HELD, {})
    name = f"cachedContents/{request.params['id']}"
    if name not in held:
        text = "CachedContent not found (or permission denied)"
        raise RefusedError(Refusal("CCH-02", text, status=403, type="PERMISSION_DENIED"), context)
    return held[name]


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_found(request, emulator)["record"])


def delete(request: Request, emulator: Emulator) -> Response:
    name = _found(request, emulator)["record"]["name"]
    del emulator.memory(PROVIDER)[HELD][name]
    return json_response({})


ROUTES: list[Route] = [
    route
    for version in ("v1beta", "v1")
    for route in (
        ("POST", f"/{version}/cachedContents", create),
        ("GET", f"/{version}/cachedContents/{{id}}", read),
        ("DELETE", f"/{version}/cachedContents/{{id}}", delete),
    )
]
