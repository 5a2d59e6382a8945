"""Vectors for any number of texts: in order, in requests as large as the provider takes, a few at a time.

A request that turns out to be too large after all is halved until it fits. One that fails in a way that may pass, such
as a rate limit, a failure of the server or a broken connection, is sent again after a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, field

from segue.errors import (
    InvalidRequestError,
    ProtocolError,
    ProviderError,
    SegueError,
    TransportError,
    UsageError,
    is_transient,
    prefixed,
    retry_after_of,
)
from segue.providers.capabilities import OnCounted, OnEmbedded
from segue.providers.endpoint import Endpoint
from segue.providers.models.catalog import catalog, catalog_model
from segue.providers.models.listing import show_model
from segue.providers.services import EmbedService
from segue.providers.token_counts import family_of, text_tokens

if TYPE_CHECKING:
    from segue.providers.models.catalog import EmbeddingLimits
    from segue.providers.services import Counted, Services

ATTEMPTS: Final = 4
FIRST_PAUSE: Final = 0.5
"""Seconds; each further pause is twice as long, and at least what the provider asks for."""
LONGEST_PAUSE: Final = 60.0
"""Seconds. A longer pause is raised as the error that asks for it."""

_CAREFUL: Final = 0.7
"""The share of a token limit that an estimated batch may fill: estimates are off by up to a third."""


@final
class Embeddings:
    """The vectors of one endpoint. `model` is used if a caller names none."""

    def __init__(self, endpoint: Endpoint, services: Services, model: str = "") -> None:
        self._endpoint = endpoint
        self._services = services
        self.model = model or services.embedding_limits.model
        """The one that is used if none is named; empty if there is none."""

    async def embed(
        self,
        texts: Sequence[str],
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: OnEmbedded | None = None,
        on_counted: OnCounted | None = None,
    ) -> list[list[float]]:
        """The vectors of all texts, in their order and all equally long. No texts, no request."""
        if isinstance(texts, str):
            raise UsageError(
                "The texts to embed are one string, not a list of them.",
                code="bad_texts",
                path="texts",
                hint='Write ["…"] for a single one.',
            )
        if not texts:
            return []
        embed, name = self._service_and_model(model)
        limits = self._services.embedding_limits
        left, vectors = batches(texts, limits, name), [list[float]()] * len(texts)
        work = _Work(self._endpoint, embed, name, texts, left, dimensions, on_progress, vectors)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, limits.parallel)):
                    group.create_task(work.take_batches())
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]
            if isinstance(first, SegueError):
                first.unbilled = work.asked == work.unbilled
            raise first from first.__cause__
        if on_counted is not None and work.tokens is not None:
            on_counted(work.tokens)
        return work.vectors

    async def dimensions(self, model: str = "") -> int:
        """How long the vectors of a model are. Raises when its provider does not have the model."""
        _, name = self._service_and_model(model)
        found = None
        if self._services.show_model is not None:
            found = (await show_model(self._endpoint, self._services, name)).dimensions
        if found is None and (listed := catalog_model(self._endpoint.provider, name)) is not None:
            found = listed.dimensions
        return len((await self.embed(["dimensions"], model=name))[0]) if found is None else found

    def _service_and_model(self, model: str) -> tuple[EmbedService, str]:
        """The service that makes vectors, and the model. Raises if there is no such service, or no model is named."""
        provider = self._endpoint.provider
        if self._services.embed is None:
            raise InvalidRequestError(
                f'Provider "{provider}" has no embeddings.',
                code="unsupported",
                hint=f"Use a provider of one of these dialects: {', '.join(sorted(catalog().embeddings))}.",
            )
        meant = model or self.model
        if not meant:
            raise UsageError(
                f'No embedding model is named, and provider "{provider}" has no default one.',
                code="no_model",
                hint=f"Name one, or set providers.{provider}.embedding_model.",
            )
        return self._services.embed, meant


def batches(texts: Sequence[str], limits: EmbeddingLimits, model: str) -> Iterator[range]:
    """The texts by place, in portions that one request may hold. A text that is too long stands alone."""
    family = family_of(model)
    most = limits.tokens * _CAREFUL if limits.tokens is not None else None
    start, held = 0, 0.0
    for place, text in enumerate(texts):
        size = text_tokens(text, family) if most is not None else 0.0
        full = place - start >= limits.texts or (most is not None and held + size > most)
        if full and place > start:
            yield range(start, place)
            start, held = place, 0.0
        held += size
    yield range(start, len(texts))


@final
class _Work(Struct):
    """What several tasks do together: each takes the next batch until none is left."""

    endpoint: Endpoint
    embed: EmbedService
    model: str
    texts: Sequence[str]
    left: Iterator[range]
    dimensions: int | None
    on_progress: OnEmbedded | None
    vectors: list[list[float]]
    done: int = 0
    asked: int = 0
    """Requests, of which the provider took nothing of so many:"""
    unbilled: int = 0
    tokens: int | None = 0
    """None if the provider does not count them."""
    length: int | None = None
    """Of each vector, once one is known."""
    random: Random = field(default_factory=Random)

    async def take_batches(self) -> None:
        for places in self.left:
            await self._fill(places)

    async def _fill(self, places: range) -> None:
        texts = self.texts[places.start : places.stop]
        try:
            vectors, tokens = await self._with_retries(texts)
        except SegueError as error:
            if error.remedy == "shrink" and len(places) > 1:
                middle = len(places) // 2
                await self._fill(places[:middle])
                await self._fill(places[middle:])
                return
            raise prefixed(error, self._what(places)) from error
        self._keep(places, vectors)
        self.tokens = None if tokens is None or self.tokens is None else self.tokens + tokens

    async def _with_retries(self, texts: Sequence[str]) -> Counted:
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._ask(texts)
            except (ProviderError, TransportError) as error:
                # With jitter, so that batches that failed together do not come back together.
                jitter = 0.5 + self.random.random() / 2
                pause = max(FIRST_PAUSE * 2.0 ** (attempt - 1) * jitter, retry_after_of(error) or 0.0)
                if not is_transient(error) or pause > LONGEST_PAUSE:
                    raise
            await asyncio.sleep(pause)
        return await self._ask(texts)

    async def _ask(self, texts: Sequence[str]) -> Counted:
        self.asked += 1
        try:
            return await self.embed(self.endpoint, self.model, texts, self.dimensions)
        except SegueError as error:
            self.unbilled += error.unbilled
            raise

    def _keep(self, places: range, vectors: list[list[float]]) -> None:
        if len(vectors) != len(places):
            raise self._broken(places, f"it gave {len(vectors)} vectors for {len(places)} texts")
        for place, vector in zip(places, vectors, strict=True):
            if self.length is None:
                self.length = len(vector) if self.dimensions is None else self.dimensions
            if len(vector) != self.length or not vector:
                raise self._broken(
                    range(place, place + 1),
                    f"a vector has {len(vector)} dimensions where {self.length} were expected",
                )
            self.vectors[place] = vector
        self.done += len(places)
        if self.on_progress is not None:
            self.on_progress(self.done, len(self.texts))

    def _broken(self, places: range, why: str) -> ProtocolError:
        return ProtocolError(f"{self._what(places)}: {why}.", code="unexpected_answer")

    def _what(self, places: range) -> str:
        first, last = places.start + 1, places.stop
        which = f"text {first}" if first == last else f"texts {first} to {last}"
        empty = next((place + 1 for place in places if not self.texts[place].strip()), None)
        remark = "" if empty is None else f" (text {empty} is empty)"
        return (
            f'Embedding {which} of {len(self.texts)}{remark} with the model "{self.model}" of '
            f"{self.endpoint.provider} failed"
        )
