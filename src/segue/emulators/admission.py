"""What a server does with a request before it answers: it checks the key, reads the JSON, and applies its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from segue.emulators.http import BadJsonError, Request, Response
from segue.emulators.rules import Context, Refusal, first_enforced

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

Complaints: TypeAlias = Callable[[object, Context], Iterator[Refusal]]
Segments: TypeAlias = Callable[[Mapping[str, Any], Context], list[object]]


class ErrorWords(Protocol):
    """The module of a provider that writes its errors."""

    def credentials(self, request: Request, emulator: Emulator) -> Refusal | None: ...

    def not_json(self, body: bytes, /) -> Refusal: ...

    def refuse(self, refusal: Refusal, context: Context) -> Response: ...


def model_of(body: object) -> str:
    model = body.get("model") if isinstance(body, Mapping) else None
    return model if isinstance(model, str) else ""


def admitted(
    request: Request,
    emulator: Emulator,
    provider: str,
    errors: ErrorWords,
    complaints: Complaints,
    segments: Segments | None = None,
    *,
    remember: bool = True,
) -> tuple[dict[str, Any], Context] | Response:
    """The body and its circumstances, or the answer that refuses it.

    `segments`: the prompt, for cache accounting. `remember`: whether an accepted prompt is put into the cache.
    """
    context = emulator.context(request, provider=provider)
    refusal = errors.credentials(request, emulator)
    if refusal is not None:
        return errors.refuse(refusal, context)
    try:
        body = request.json()
    except BadJsonError:
        return errors.refuse(errors.not_json(request.body), context)
    prompt = segments(body, context) if segments is not None and isinstance(body, dict) else []
    context = emulator.context(request, provider=provider, model=model_of(body), segments=prompt)
    refusal = first_enforced(complaints(body, context), context)
    if refusal is not None:
        return errors.refuse(refusal, context)
    if segments is not None and remember:
        emulator.remember(provider, context, prompt)
    return body, context
