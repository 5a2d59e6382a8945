"""Vectors through a router: the next member is asked when one fails, and the result names the model that made them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.chat.chat_session import default_providers
from segue.conversation.usage import Usage
from segue.errors import RouteError, SegueError
from segue.routing.route import facts_from, provider_of
from segue.routing.router import GiveUp, Need, Retry, router_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.providers.adapter import Providers
    from segue.routing.route import Route
    from segue.routing.router import Model


@final
class EmbeddingResult(Struct, frozen=True):
    """One vector for each text, in order."""

    vectors: list[list[float]]
    model: str
    """provider/model. Vectors of different models cannot be compared."""


async def embed(
    texts: Sequence[str],
    model: Model,
    *,
    dimensions: int | None = None,
    providers: Providers | None = None,
) -> EmbeddingResult:
    """The vectors of texts, all from one model: if it fails, the next member makes all of them again."""
    known = providers or default_providers()
    routing = router_for(model, facts_from(known)).open(Need())
    while True:
        route, started = routing.route, time.monotonic()
        try:
            vectors = await _embed(texts, route, dimensions, known)
        except SegueError as error:
            step = routing.failed(error, shown=False, ran=False)
            if type(step) is GiveUp:
                raise step.error from error
            if type(step) is Retry:
                await asyncio.sleep(step.after)
            continue
        routing.answered(Usage(), seconds=time.monotonic() - started)
        return EmbeddingResult(vectors, route.name)


async def _embed(
    texts: Sequence[str], route: Route, dimensions: int | None, providers: Providers
) -> list[list[float]]:
    make = provider_of(route, providers).capabilities.embed
    if make is None:
        raise RouteError(
            f"{route.provider} has no embedding models.",
            code="not_offered",
            hint="Use another provider.",
        )
    return await make(texts, model=route.model, dimensions=dimensions)
