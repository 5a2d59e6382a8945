"""`cachedContents`: system, tools and contents that the server holds, and requests that build on them (CCH-01, CCH-02)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from segue.emulators.gemini import proto
from segue.emulators.gemini.contents import Body, refused
from segue.emulators.gemini.errors import ERRORS
from segue.emulators.gemini.prompt import segments
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response
from segue.emulators.model.model_facts import facts_for
from segue.emulators.model.prompt_cache import size
from segue.emulators.request_checks import permitted
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.emulator import Emulator

PROVIDER = "gemini"
HELD = "cached_contents"
"""Of the memory: name → what was sent, the record that is shown, whose it is, and when it expires."""
LIFE = 3600
PAGE = 1000
NOT_FOUND = Refusal(
    "CCH-02", "CachedContent not found (or permission denied)", status=403, type="PERMISSION_DENIED"
)
_SHARED = ("system_instruction", "tools", "tool_config")
_CONTENT = ("contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config")
_TIMES = ("ttl", "expireTime", "expire_time")
_CREATED_WITH = (*_CONTENT, *_TIMES, "model", "displayName", "display_name")
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?s")


def _held(memory: Mapping[str, Any], name: object, account: str, now: int) -> dict[str, Any] | None:
    """What lives under a name, for the account that it belongs to."""
    found: dict[str, Any] | None = memory.get(HELD, {}).get(name)
    return found if found is not None and found["account"] == account and found["expires"] > now else None


def _cached(body: Body, context: Context) -> Mapping[str, Any] | None:
    found = _held(context.memory, body.get("cached_content"), context.account, context.now)
    return found["content"] if found is not None else None


def whole(body: Body, context: Context) -> Body:
    """A request as the model reads it. It cannot be read back in any other way."""
    cached = _cached(body, context) if body.get("cached_content") else None
    if cached is None:
        return body
    shared = {name: cached[name] for name in _SHARED if name in cached}
    return {**body, **shared, "contents": [*cached.get("contents", ()), *body.get("contents", ())]}


def tokens_read(body: Body, context: Context) -> int:
    """Of what a request reads from the content that it names: all of it, however little that is."""
    cached = _cached(body, context)
    return size(segments(cached)) if cached is not None else 0


@rule("CCH-02")
def complaints(body: Body, context: Context) -> Complaints:
    name = body.get("cached_content")
    if not name or HELD not in context.memory:
        return
    cached = _cached(body, context)
    if cached is None:
        yield NOT_FOUND
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
    context = permitted(request, emulator, ERRORS)
    given = _given(request, context, _CREATED_WITH)
    reader = proto.Reader()
    body = reader.message({name: given[name] for name in _CONTENT if name in given}, "GenerateContentRequest")
    if reader.faults:
        raise RefusedError(
            refused("CCH-01", "\n".join(fault.line for fault in reader.faults)), context
        ) from None
    body["model"] = given.get("model")
    if not isinstance(body["model"], str):
        raise RefusedError(
            refused("CCH-01", "* CreateCachedContentRequest.model: model is required"), context
        )
    model = body["model"].removeprefix("models/")
    if not facts_for(PROVIDER, model):
        text = f"models/{model} is not found for API version v1beta, or is not supported for createCachedContent."
        raise RefusedError(Refusal("CCH-01", text, status=404, type="NOT_FOUND"), context)
    if not (set(body) & {"contents", *_SHARED}):
        raise RefusedError(refused("CCH-01", "CachedContent has no content."), context)
    expires = _expires(given, context)
    name, read = f"cachedContents/{context.reply_id}", segments(body)
    record = {
        "name": name,
        "model": body["model"],
        "createTime": _time(context.now),
        "updateTime": _time(context.now),
        "expireTime": _time(expires),
        "usageMetadata": {"totalTokenCount": size(read)},
    }
    if title := given.get("displayName", given.get("display_name")):
        record["displayName"] = title
    emulator.memory(PROVIDER).setdefault(HELD, {})[name] = {
        "content": body,
        "record": record,
        "account": context.account,
        "expires": expires,
    }
    emulator.cache.store((PROVIDER, context.account, model), read)
    return json_response(record)


def _given(request: Request, context: Context, known: tuple[str, ...]) -> dict[str, Any]:
    try:
        given = request.json()
    except BadJsonError as error:
        raise RefusedError(ERRORS.not_json(request.body, str(error)), context) from error
    given = given if isinstance(given, dict) else {}
    for name in given:
        if name not in known:
            text = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
            raise RefusedError(refused("CCH-01", text), context)
    return given


@rule("CCH-01")
def _expires(given: Mapping[str, Any], context: Context) -> int:
    """One of two says when it ends: how long it lives, or the moment."""
    ttl, moment = given.get("ttl"), given.get("expireTime", given.get("expire_time"))
    if ttl is not None and moment is not None:
        text = "Invalid value at 'cached_content' (oneof), oneof field 'expiration' is already set."
        raise RefusedError(refused("CCH-01", text), context)
    if ttl is not None:
        if not isinstance(ttl, str) or not _SECONDS.fullmatch(ttl):
            text = f"Invalid value at 'cached_content.ttl' (type.googleapis.com/google.protobuf.Duration), {ttl!r}"
            raise RefusedError(refused("CCH-01", text), context)
        ends = context.now + int(float(ttl[:-1]))
    elif moment is not None:
        try:
            ends = int(datetime.fromisoformat(moment).timestamp())
        except (TypeError, ValueError):
            text = "Invalid value at 'cached_content.expire_time' (type.googleapis.com/google.protobuf.Timestamp)"
            raise RefusedError(refused("CCH-01", text), context) from None
    else:
        ends = context.now + LIFE
    if ends <= context.now:
        raise RefusedError(refused("CCH-01", "CachedContent expiration must be in the future."), context)
    return ends


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _found(request: Request, context: Context) -> dict[str, Any]:
    name = f"cachedContents/{request.params['id']}"
    found = _held(context.memory, name, context.account, context.now)
    if found is None:
        raise RefusedError(NOT_FOUND, context)
    return found


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_found(request, permitted(request, emulator, ERRORS))["record"])


@rule("CCH-01")
def list_all(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    mine = [
        held["record"]
        for name, held in context.memory.get(HELD, {}).items()
        if _held(context.memory, name, context.account, context.now)
    ]
    start, amount = int(request.query.get("pageToken") or "0"), int(request.query.get("pageSize") or PAGE)
    answer: dict[str, Any] = {"cachedContents": mine[start : start + amount]}
    if start + amount < len(mine):
        answer["nextPageToken"] = str(start + amount)
    return json_response(answer if mine else {})


@rule("CCH-01")
def update(request: Request, emulator: Emulator) -> Response:
    """Only when it ends can be changed."""
    context = permitted(request, emulator, ERRORS)
    found = _found(request, context)
    given = _given(request, context, (*_TIMES, "name"))
    found["expires"] = expires = _expires(given, context)
    found["record"] |= {"expireTime": _time(expires), "updateTime": _time(context.now)}
    return json_response(found["record"])


def delete(request: Request, emulator: Emulator) -> Response:
    name = _found(request, permitted(request, emulator, ERRORS))["record"]["name"]
    del emulator.memory(PROVIDER)[HELD][name]
    return json_response({})


ROUTES: list[Route] = [
    route
    for version in ("v1beta", "v1")
    for route in (
        ("POST", f"/{version}/cachedContents", create),
        ("GET", f"/{version}/cachedContents", list_all),
        ("GET", f"/{version}/cachedContents/{{id}}", read),
        ("PATCH", f"/{version}/cachedContents/{{id}}", update),
        ("DELETE", f"/{version}/cachedContents/{{id}}", delete),
    )
]
