"""Vectors for any number of texts, from every provider that has them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.emulators.faults import Fault
from segue.emulators.server import Served
from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    ProtocolError,
    RateLimitError,
    TransportError,
    UsageError,
)
from segue.providers import embeddings
from segue.providers.capabilities import ModelInfo
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.embeddings import ATTEMPTS, Embeddings, batches
from segue.providers.endpoint import Endpoint
from segue.providers.factory import connect
from segue.providers.models.catalog import EmbeddingLimits, catalog
from segue.providers.services import Counted, Services, services_of
from segue.providers.token_counts import family_of, text_tokens
from strategies.endpoints import closing, emulated, endpoint_at

WIRES = ("openai_chat", "gemini", "mistral", "ollama", "ollama_v1")
NOWHERE = endpoint_at("http://127.0.0.1:9", "openai_chat")


def embed(served: Served, dialect: str, texts: Sequence[str], **wishes: Any) -> list[list[float]]:
    async def main() -> list[list[float]]:
        return await closing(
            emulated(served, dialect), lambda at: Embeddings(at, services_of(dialect)).embed(texts, **wishes)
        )

    return asyncio.run(main())


def alike(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.dist(one, [0.0] * len(one))


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.requirement("Scenario: Embedding Generation")
def test_every_text_gets_its_vector_and_all_are_equally_long(
    dialect: str, segue_emulator_server: Served
) -> None:
    texts = ["the cat sat", "a dog barked", "the cat sat again"]
    vectors = embed(segue_emulator_server, dialect, texts)
    assert len(vectors) == len(texts)
    assert len({len(vector) for vector in vectors}) == 1
    assert alike(vectors[0], vectors[2]) > alike(vectors[0], vectors[1])


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.requirement("Scenario: Batch Embedding Generation")
def test_many_texts_are_sent_in_as_many_requests_as_it_takes_and_come_back_in_order(
    dialect: str, segue_emulator_server: Served
) -> None:
    texts = [f"text number {number}" for number in range(230)]
    heard: list[tuple[int, int]] = []
    wishes: dict[str, Any] = {} if dialect == "mistral" else {"dimensions": 8}
    vectors = embed(
        segue_emulator_server,
        dialect,
        texts,
        on_progress=lambda done, of: heard.append((done, of)),
        **wishes,
    )
    alone = embed(segue_emulator_server, dialect, [texts[217]], **wishes)
    assert len(vectors) == 230
    assert vectors[217] == alone[0]
    assert heard[-1] == (230, 230)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    most = catalog().embeddings[dialect].texts
    asked = [entry for entry in segue_emulator_server.emulator.log if entry.status == 200]
    assert len(asked) - 1 == -(-230 // most)


def test_openai_takes_no_more_than_2048_texts_at_once(segue_emulator_server: Served) -> None:
    texts = [f"t{number}" for number in range(2100)]
    assert len(embed(segue_emulator_server, "openai_chat", texts, dimensions=4)) == 2100
    assert len(segue_emulator_server.emulator.log) == 2


def test_a_token_limit_of_all_texts_together_is_kept(segue_emulator_server: Served) -> None:
    texts = ["word " * 6000 for _ in range(50)]  # 6000 tokens each: 300,000 and a bit
    vectors = embed(segue_emulator_server, "openai_chat", texts, dimensions=4)
    assert len(vectors) == 50
    assert {entry.status for entry in segue_emulator_server.emulator.log} == {200}


def test_a_request_that_is_too_large_after_all_is_halved(segue_emulator_server: Served) -> None:
    """However good the estimate: the provider has the last word on what is too much."""
    texts = ["0123456789" * 700] * 240  # 1750 tokens each: 420,000
    services = services_of("openai_chat")
    generous = EmbeddingLimits(model="text-embedding-3-small", texts=2048, tokens=10_000_000)

    async def main() -> list[list[float]]:
        several = msgspec.structs.replace(services, embedding_limits=generous)
        return await closing(
            emulated(segue_emulator_server, "openai_chat"),
            lambda at: Embeddings(at, several).embed(texts, dimensions=4),
        )

    assert len(asyncio.run(main())) == 240
    assert [entry.status for entry in segue_emulator_server.emulator.log] == [400, 200, 200]


@pytest.mark.parametrize("dialect", ["openai_chat", "mistral", "ollama"])
def test_the_tokens_that_a_provider_counted_are_added_up(dialect: str, segue_emulator_server: Served) -> None:
    counted: list[int] = []

    async def main() -> list[list[float]]:
        return await closing(
            emulated(segue_emulator_server, dialect),
            lambda at: Embeddings(at, services_of(dialect)).embed(["four"] * 600, on_counted=counted.append),
        )

    assert len(asyncio.run(main())) == 600
    assert counted == [600]


def test_no_texts_are_no_request() -> None:
    assert asyncio.run(Embeddings(NOWHERE, services_of("openai_chat")).embed([])) == []


def test_one_string_is_no_list_of_texts() -> None:
    with pytest.raises(UsageError, match="not a list"):
        asyncio.run(Embeddings(NOWHERE, services_of("openai_chat")).embed("text"))


@pytest.mark.requirement("Property 11")
@pytest.mark.parametrize("dialect", ["anthropic", "deepseek", "kimi", "groq", "xai", "minimax"])
def test_a_provider_without_embeddings_says_so(dialect: str) -> None:
    assert services_of(dialect).embed is None
    with pytest.raises(InvalidRequestError, match="has no embeddings"):
        asyncio.run(Embeddings(NOWHERE, services_of(dialect)).embed(["text"]))


def test_a_place_without_a_default_model_asks_for_one() -> None:
    with pytest.raises(UsageError, match="No embedding model is named"):
        asyncio.run(Embeddings(NOWHERE, services_of("vllm")).embed(["text"]))


@pytest.mark.parametrize(
    ("dialect", "model", "dimensions"),
    [
        ("openai_chat", "", 1536),
        ("openai_chat", "text-embedding-3-large", 3072),
        ("gemini", "", 3072),
        ("mistral", "", 1024),
        ("ollama", "", 768),
    ],
)
@pytest.mark.requirement("Scenario: Embedding Configuration")
def test_the_dimensions_of_a_model_are_known(
    dialect: str, model: str, dimensions: int, segue_emulator_server: Served
) -> None:
    async def main() -> int:
        return await closing(
            emulated(segue_emulator_server, dialect),
            lambda at: Embeddings(at, services_of(dialect)).dimensions(model),
        )

    assert asyncio.run(main()) == dimensions


@pytest.mark.requirement("Scenario: Embedding Configuration")
@pytest.mark.parametrize(
    ("model", "dimensions"), [("text-embedding-3-large", 3072), ("text-embedding-3-small", 1536)]
)
def test_the_model_that_is_configured_is_the_one_that_embeds(
    model: str, dimensions: int, segue_emulator_server: Served
) -> None:
    url = segue_emulator_server.url("openai") + "/v1"
    config = ProviderConfig(base_url=url, api_key=Secret("k"), embedding_model=model)
    can = connect("openai", config, environ={}, keyring=False).capabilities
    assert can.embedding_model == model
    embed, known = can.embed, can.embedding_dimensions
    assert embed is not None and known is not None

    async def main() -> tuple[int, list[list[float]]]:
        return await known(), await embed(["one", "two"])

    stated, vectors = asyncio.run(main())
    assert stated == dimensions
    assert [len(vector) for vector in vectors] == [dimensions, dimensions]
    asked = [
        entry.body["model"]
        for entry in segue_emulator_server.emulator.log
        if entry.path.endswith("/embeddings")
    ]
    assert set(asked) == {model}


@pytest.mark.requirement("Scenario: Embedding Configuration")
def test_a_model_that_is_configured_and_not_available_is_refused(segue_emulator_server: Served) -> None:
    url = segue_emulator_server.url("openai") + "/v1"
    config = ProviderConfig(base_url=url, api_key=Secret("k"), embedding_model="no-such-model")
    known = connect("openai", config, environ={}, keyring=False).capabilities.embedding_dimensions
    assert known is not None

    async def main() -> int:
        return await known()

    with pytest.raises(InvalidRequestError, match="no-such-model"):
        asyncio.run(main())


@pytest.mark.requirement("Scenario: Embedding Configuration")
@pytest.mark.parametrize("shown", [True, False])
def test_the_dimensions_come_from_the_server_else_from_the_catalog_and_nothing_is_embedded(
    segue_emulator_server: Served, *, shown: bool
) -> None:
    """Of a model whose vectors the server can make shorter, it knows better."""

    async def show(_: Endpoint, model: str) -> ModelInfo:
        return ModelInfo(id=model, type="embedding", dimensions=1024 if shown else None)

    async def ask(at: Endpoint) -> int:
        services = msgspec.structs.replace(services_of("openai_chat"), show_model=show)
        return await Embeddings(at, services).dimensions("text-embedding-3-large")

    async def main() -> int:
        return await closing(emulated(segue_emulator_server, "openai_chat"), ask)

    assert asyncio.run(main()) == (1024 if shown else 3072)
    assert list(segue_emulator_server.emulator.log) == []


@pytest.mark.requirement("Scenario: Embedding Configuration")
def test_a_model_that_nobody_knows_is_measured(segue_emulator_server: Served) -> None:
    async def measure(at: Endpoint) -> int:
        services = msgspec.structs.replace(services_of("gemini"), show_model=None)
        return await Embeddings(at, services).dimensions("gemini-embedding-exp")

    async def main() -> int:
        return await closing(emulated(segue_emulator_server, "gemini"), measure)

    assert asyncio.run(main()) == 3072


@pytest.mark.parametrize("dialect", ["openai_chat", "gemini", "ollama"])
@pytest.mark.requirement("Scenario: Embedding Configuration")
def test_a_model_that_is_not_available_is_refused(dialect: str, segue_emulator_server: Served) -> None:
    async def main() -> int:
        return await closing(
            emulated(segue_emulator_server, dialect),
            lambda at: Embeddings(at, services_of(dialect)).dimensions("no-such-model"),
        )

    with pytest.raises(InvalidRequestError, match="no-such-model"):
        asyncio.run(main())


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.requirement("Scenario: Embedding Error Handling")
def test_an_error_names_provider_model_and_reason_and_keeps_its_remedy(
    dialect: str, segue_emulator_server: Served
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=429, retry_after=700.0))
    with pytest.raises(RateLimitError) as caught:
        embed(segue_emulator_server, dialect, ["text"])
    error = caught.value
    assert (error.remedy, error.status) == ("wait", 429)
    assert error.retry_after is not None
    assert isinstance(error.__cause__, RateLimitError)
    for part in (dialect.partition("_")[0], catalog().embeddings[dialect].model, error.__cause__.message):
        assert part in str(error)


@pytest.mark.parametrize("dialect", WIRES)
def test_who_comes_too_soon_waits_as_long_as_asked_and_comes_again(
    dialect: str, segue_emulator_server: Served
) -> None:
    segue_emulator_server.emulator.faults.extend([Fault(status=429, retry_after=0.02)] * (ATTEMPTS - 1))
    assert len(embed(segue_emulator_server, dialect, ["text"])) == 1
    asked = [entry for entry in segue_emulator_server.emulator.log if "mbed" in entry.path]
    assert [entry.status for entry in asked] == [429] * (ATTEMPTS - 1) + [200]


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500, retry_after=None),
        Fault(status=503, retry_after=None),
        Fault(kind="cut", at_byte=10),
        Fault(kind="silence", seconds=0.0),
    ],
)
@pytest.mark.requirement("Scenario: Embedding Error Handling")
def test_a_failure_that_may_pass_does_not_end_the_job(
    dialect: str, fault: Fault, segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "FIRST_PAUSE", 0.001)
    segue_emulator_server.emulator.faults.extend([fault] * (ATTEMPTS - 1))
    assert len(embed(segue_emulator_server, dialect, ["text"])) == 1


def test_what_no_waiting_cures_is_sent_once(segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=401, retry_after=None))
    with pytest.raises(CredentialsError):
        embed(segue_emulator_server, "openai_chat", ["text"])
    assert len(segue_emulator_server.emulator.log) == 1


def test_who_is_refused_again_and_again_hears_of_it() -> None:
    asked = 0

    async def refuse(*_: Any) -> Counted:
        nonlocal asked
        asked += 1
        raise RateLimitError("Too soon.", retry_after=0.0)

    services = Services(embed=refuse, embedding_limits=EmbeddingLimits(model="m"))
    with pytest.raises(RateLimitError, match=r"Too soon\."):
        asyncio.run(Embeddings(NOWHERE, services).embed(["text"]))
    assert asked == ATTEMPTS


@pytest.mark.requirement("Scenario: Embedding Error Handling")
def test_an_error_names_the_text_that_is_too_long(segue_emulator_server: Served) -> None:
    texts = ["short", "long " * 9000, "short"]
    with pytest.raises(ContextLengthError, match=r"text 2 of 3 .*maximum context length"):
        embed(segue_emulator_server, "openai_chat", texts)
    with pytest.raises(ContextLengthError, match="exceeds the context length"):
        embed(segue_emulator_server, "ollama", texts)


def test_an_error_tells_of_an_empty_text(segue_emulator_server: Served) -> None:
    with pytest.raises(InvalidRequestError, match="text 2 is empty"):
        embed(segue_emulator_server, "openai_chat", ["one", ""])


def test_nobody_listening_is_told_with_provider_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "FIRST_PAUSE", 0.001)

    async def main() -> list[list[float]]:
        return await closing(NOWHERE, lambda at: Embeddings(at, services_of("openai_chat")).embed(["text"]))

    with pytest.raises(TransportError, match=r"openai.*127\.0\.0\.1:9"):
        asyncio.run(main())


def _giving(*lengths: int) -> Services:
    async def make(_: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
        del model, texts, dimensions
        return [[1.0] * length for length in lengths], None

    return Services(embed=make, embedding_limits=EmbeddingLimits(model="m"))


@pytest.mark.parametrize(
    ("lengths", "dimensions", "why"),
    [
        ((4, 5), None, "5 dimensions where 4"),
        ((4, 4), 8, "4 dimensions where 8"),
        ((4,), None, "1 vectors for 2"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(
    lengths: tuple[int, ...], dimensions: int | None, why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        asyncio.run(Embeddings(NOWHERE, _giving(*lengths)).embed(["a", "b"], dimensions=dimensions))


@pytest.mark.parametrize("parallel", [1, 3])
def test_no_more_requests_are_on_their_way_than_allowed(parallel: int) -> None:
    under_way, most = 0, 0

    async def make(_: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
        nonlocal under_way, most
        del model, dimensions
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (len(texts[0]) % 3))  # the later may be the faster
        under_way -= 1
        return [[float(text)] for text in texts], None

    services = Services(embed=make, embedding_limits=EmbeddingLimits(model="m", texts=2, parallel=parallel))
    vectors = asyncio.run(Embeddings(NOWHERE, services).embed([str(number) for number in range(21)]))
    assert vectors == [[float(number)] for number in range(21)]
    assert most == parallel


def test_one_failure_ends_the_others() -> None:
    asked: list[str] = []

    async def make(_: Endpoint, model: str, texts: Sequence[str], dimensions: int | None) -> Counted:
        del model, dimensions
        asked.append(texts[0])
        if texts[0] == "0":
            raise InvalidRequestError("No.")
        await asyncio.sleep(30)
        return [[1.0]], None

    services = Services(embed=make, embedding_limits=EmbeddingLimits(model="m", texts=1, parallel=2))
    with pytest.raises(InvalidRequestError, match=r"text 1 of 9 .*No\."):
        asyncio.run(Embeddings(NOWHERE, services).embed([str(number) for number in range(9)]))
    assert len(asked) == 2


@given(
    texts=st.lists(st.text(max_size=60), max_size=40),
    most=st.integers(1, 10),
    tokens=st.none() | st.integers(1, 60),
)
def test_batches_hold_every_text_once_in_order_and_no_more_than_allowed(
    texts: list[str], most: int, tokens: int | None
) -> None:
    limits = EmbeddingLimits(texts=most, tokens=tokens)
    portions = list(batches(texts, limits, "m")) if texts else []
    assert [place for portion in portions for place in portion] == list(range(len(texts)))
    for portion in portions:
        assert 0 < len(portion) <= most
        size = sum(text_tokens(texts[place], family_of("m")) for place in portion)
        assert tokens is None or len(portion) == 1 or size <= tokens
