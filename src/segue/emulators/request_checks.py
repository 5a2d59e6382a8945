"""What a server does with a request before it answers: it checks the key, reads the JSON, and applies its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from segue.emulators.emulator import Emulator, key_of
from segue.emulators.http import BadJsonError, ErrorWords, Request
from segue.emulators.rules import Complaints, Context, RefusedError, enforce

Check: TypeAlias = Callable[[object, Context], Complaints]
Unread: TypeAlias = Callable[[Request, Context], Complaints]
Segments: TypeAlias = Callable[[Mapping[str, Any]], list[object]]


def model_of(body: object) -> str:
    model = body.get("model") if isinstance(body, Mapping) else None
    return model if isinstance(model, str) else ""


def permitted(request: Request, emulator: Emulator, errors: ErrorWords) -> Context:
    """The circumstances of a request whose key is good. A provider without words for a wrong key takes any."""
    context = emulator.context(request, provider=errors.provider, model=request.params.get("model", ""))
    key = key_of(request)
    known = key and (emulator.keys is None or key in emulator.keys)
    if not known and errors.wrong_key is not None:
        raise RefusedError(errors.wrong_key(key), context)
    return context


def admitted(
    request: Request,
    emulator: Emulator,
    errors: ErrorWords,
    complaints: Check,
    segments: Segments | None = None,
    *,
    unread: Unread | None = None,
    remember: bool = True,
) -> tuple[dict[str, Any], Context]:
    """The body and its circumstances. Raises RefusedError.

    `segments`: the prompt, for cache accounting. `unread`: what is wrong before the body is read. `remember`: whether
    an accepted prompt is put into the cache.
    """
    context = permitted(request, emulator, errors)
    if unread is not None:
        enforce(unread(request, context), context)
    try:
        body = request.json()
    except BadJsonError as error:
        raise RefusedError(errors.not_json(request.body, str(error)), context) from error
    prompt = segments(body) if segments is not None and isinstance(body, dict) else []
    model = request.params.get("model") or model_of(body)
    context = emulator.context(request, provider=errors.provider, model=model, segments=prompt)
    enforce(complaints(body, context), context)
    if segments is not None and remember:
        emulator.remember(errors.provider, context, prompt)
    return body, context
