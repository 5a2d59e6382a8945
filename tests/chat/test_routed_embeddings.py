"""Vectors through a router: one model makes all of them, and the next one does where it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue import embed
from segue.errors import OverloadError, SegueError
from segue.providers.adapter import ProviderAdapter
from segue.providers.capabilities import Capabilities
from segue.routing import Profile, build_router, facts_from


class Embedder(ProviderAdapter):
    """A provider with nothing but embeddings."""

    def __init__(self, name: str, *, fails: bool = False, able: bool = True) -> None:
        self.name, self.calls = name, 0
        self._fails = fails
        self.capabilities = Capabilities(embed=self._embed if able else None)

    async def _embed(
        self,
        texts: Any,
        *,
        model: str = "",
        dimensions: int | None = None,
        on_progress: Any = None,
        on_counted: Any = None,
    ) -> Any:
        self.calls += 1
        if self._fails:
            raise OverloadError("Busy.", status=503)
        return [[float(len(text))] * (dimensions or 2) for text in texts]

    def chat_stream(self, request: Any) -> Any:
        raise NotImplementedError


def test_a_model_by_name_makes_one_vector_for_each_text() -> None:
    providers: Any = {"a": Embedder("a")}
    made = asyncio.run(embed(["x", "yy"], "a/small", dimensions=3, providers=providers))
    assert (made.vectors, made.model) == ([[1.0] * 3, [2.0] * 3], "a/small")


@pytest.mark.parametrize("first", [Embedder("a", fails=True), Embedder("a", able=False)])
def test_the_next_member_answers_where_one_fails_or_has_no_embeddings(first: Embedder) -> None:
    providers: Any = {"a": first, "b": Embedder("b")}
    profile = Profile(name="vectors", policy="failover", members=("a/m", "b/m"))
    router = build_router(profile, facts_from(providers))
    assert asyncio.run(embed(["x"], router, providers=providers)).model == "b/m"


def test_an_error_is_raised_where_nobody_can() -> None:
    with pytest.raises(SegueError):
        asyncio.run(embed(["x"], "a/m", providers={"a": Embedder("a", able=False)}))
