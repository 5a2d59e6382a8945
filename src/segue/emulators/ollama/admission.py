"""What both halves of the server do with a request before they answer it: read, judge, put the model into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.admission import Complaints, model_of
from segue.emulators.http import BadJsonError, Request, Response
from segue.emulators.ollama import gojson, window
from segue.emulators.ollama.management import store_of
from segue.emulators.rules import Context, Refusal, first_enforced

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

Refuse: TypeAlias = Callable[[Refusal, Context], Response]

_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}


def accepted(
    request: Request, emulator: Emulator, complaints: Complaints, refuse: Refuse
) -> tuple[dict[str, Any], Context] | Response:
    """The body and its circumstances, or the answer that refuses it."""
    # The store must exist before the checks look for it in the provider's memory.
    store_of(emulator)
    context = emulator.context(request, provider="ollama")
    try:
        body = request.json()
    except BadJsonError:
        return refuse(Refusal("OLL-11", gojson.not_json(request.body)), context)
    context = emulator.context(request, provider="ollama", model=model_of(body))
    refusal = first_enforced(complaints(body, context), context)
    return refuse(refusal, context) if refusal is not None else (body, context)


def load(
    emulator: Emulator, body: Mapping[str, Any], context: Context, keep_alive: float | None = None
) -> None:
    store_of(emulator).load(
        context.model, now=emulator.clock(), keep_alive=keep_alive, context=window.size(body, context)
    )


def seconds(keep_alive: object) -> float | None:
    """OLL-13: a number is seconds, a string Go's notation for durations."""
    if isinstance(keep_alive, int | float):
        return float(keep_alive)
    if not isinstance(keep_alive, str):
        return None
    pieces = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", keep_alive)
    total = sum(float(amount) * _UNITS[unit] for amount, unit in pieces)
    return -total if keep_alive.startswith("-") else total
