"""Usage objects as every provider sends them, and what each comes to: by hand, by genai-prices, and by the provider's own
word where it tells what it charged. The figures are those of recorded replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.conversation.usage import Usage
from segue.dialects import DIALECTS
from segue.dialects.replies.usage_counts import with_price_facts
from segue.providers.models.catalog import catalog
from segue.providers.models.prices import CATALOG_PRICES, PriceBook, PriceRule, cost_of


class Case(Struct, frozen=True):
    """A usage object, and the price of each of its parts: so many tokens at so many dollars for a million."""

    wire: str
    provider: str
    model: str
    usage: dict[str, Any]
    parts: tuple[tuple[int, float], ...]
    charged: float | None = None
    """By the provider's own word."""
    beside: dict[str, Any] = {}
    """What stands in the reply beside its counts."""
    fees: float = 0.0
    """Dollars for what the provider's own tools did."""

    @property
    def by_hand(self) -> float:
        return sum(tokens * dollars for tokens, dollars in self.parts) / 1_000_000 + self.fees


def chat(read: int, written: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **more}


def responses(read: int, cached: int, written: int, thought: int, cache_write: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_write},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": read + written,
    }


CASES = {
    "openai chat, cached": Case(
        "openai_chat",
        "openai",
        "gpt-4o-2024-08-06",
        chat(1420, 100, prompt_tokens_details={"cached_tokens": 1280, "audio_tokens": 0}),
        ((140, 2.5), (1280, 1.25), (100, 10.0)),
    ),
    "openai chat, reasoning is part of the output": Case(
        "openai_chat",
        "openai",
        "gpt-5-nano-2025-08-07",
        chat(15, 78, completion_tokens_details={"reasoning_tokens": 64}),
        ((15, 0.05), (78, 0.4)),
    ),
    "openai responses, cached and thought": Case(
        "openai_responses",
        "openai",
        "gpt-5.3-codex",
        responses(7243, 3072, 423, 58),
        ((4171, 1.75), (3072, 0.175), (423, 14.0)),
    ),
    "openai responses, written to the cache": Case(
        "openai_responses",
        "openai",
        "gpt-5.6-luna",
        responses(109, 0, 5, 0, cache_write=107),
        ((2, 0.2), (107, 0.25), (5, 1.2)),
    ),
    "openai responses, long": Case(
        "openai_responses",
        "openai",
        "gpt-5.5",
        responses(300_000, 100_000, 1000, 0),
        ((200_000, 10.0), (100_000, 1.0), (1000, 45.0)),
    ),
    "azure": Case(
        "openai_responses",
        "azure-openai",
        "gpt-5-mini-2025-08-07",
        responses(3737, 2304, 621, 512),
        ((1433, 0.25), (2304, 0.025), (621, 2.0)),
    ),
    "anthropic, cache read and written for five minutes": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {
            "input_tokens": 6,
            "cache_creation_input_tokens": 3337,
            "cache_read_input_tokens": 6289,
            "cache_creation": {"ephemeral_5m_input_tokens": 3337, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 198,
            "service_tier": "standard",
        },
        ((6, 3.0), (3337, 3.75), (6289, 0.3), (198, 15.0)),
    ),
    "anthropic, cache written for an hour": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {
            "input_tokens": 2,
            "cache_creation_input_tokens": 3068,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2068},
            "output_tokens": 69,
        },
        ((2, 3.0), (1000, 3.75), (2068, 6.0), (69, 15.0)),
    ),
    "gemini, cached and thought": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {
            "promptTokenCount": 9613,
            "candidatesTokenCount": 33,
            "totalTokenCount": 9685,
            "cachedContentTokenCount": 9602,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9613}],
            "thoughtsTokenCount": 39,
        },
        ((11, 0.3), (9602, 0.03), (72, 2.5)),
    ),
    "gemini, sound": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {
            "promptTokenCount": 585,
            "candidatesTokenCount": 50,
            "totalTokenCount": 635,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 535},
                {"modality": "AUDIO", "tokenCount": 50},
            ],
        },
        ((535, 0.3), (50, 1.0), (50, 2.5)),
    ),
    "gemini, long": Case(
        "gemini",
        "gemini",
        "gemini-2.5-pro",
        {"promptTokenCount": 250_000, "candidatesTokenCount": 10, "thoughtsTokenCount": 69},
        ((250_000, 2.5), (79, 15.0)),
    ),
    "deepseek": Case(
        "deepseek",
        "deepseek",
        "deepseek-v3.1-terminus",
        chat(
            495,
            65,
            prompt_tokens_details={"cached_tokens": 384},
            prompt_cache_hit_tokens=384,
            prompt_cache_miss_tokens=111,
        ),
        ((111, 0.27), (384, 0.13), (65, 0.95)),
    ),
    "mistral": Case(
        "mistral",
        "mistral",
        "mistral-small-latest",
        chat(93, 29, prompt_tokens_details={"cached_tokens": 16}),
        ((77, 0.15), (16, 0.015), (29, 0.6)),
    ),
    "kimi": Case(
        "kimi",
        "kimi",
        "kimi-k2.6",
        chat(20, 30, cached_tokens=10, completion_tokens_details={"reasoning_tokens": 22}),
        ((10, 0.95), (10, 0.16), (30, 4.0)),
    ),
    "groq": Case(
        "openai_compatible",
        "groq",
        "openai/gpt-oss-120b",
        chat(
            336,
            96,
            prompt_tokens_details={"cached_tokens": 256},
            completion_tokens_details={"reasoning_tokens": 59},
        ),
        ((80, 0.15), (256, 0.075), (96, 0.6)),
    ),
    "xai, thoughts counted apart": Case(
        "xai",
        "xai",
        "grok-3-mini",
        {
            "prompt_tokens": 12,
            "completion_tokens": 1,
            "total_tokens": 241,
            "prompt_tokens_details": {"text_tokens": 12, "cached_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 228},
        },
        ((10, 0.3), (2, 0.075), (229, 0.5)),
        charged=1176500e-10,
    ),
    "xai responses": Case(
        "openai_responses",
        "xai",
        "grok-4.3",
        responses(204, 128, 80, 79),
        ((76, 1.25), (128, 0.2), (80, 2.5)),
        charged=3206000e-10,
    ),
    "glm": Case(
        "glm",
        "glm",
        "glm-4.7",
        chat(
            13,
            564,
            prompt_tokens_details={"cached_tokens": 0},
            completion_tokens_details={"reasoning_tokens": 561},
        ),
        ((13, 0.6), (564, 2.2)),
    ),
    "ollama": Case("ollama", "ollama", "qwen3", {"prompt_eval_count": 1000, "eval_count": 500}, ()),
}

SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
OPENED = {**SEARCHED, "action": {"type": "open_page", "url": "https://example.com"}}

MADE_OTHERWISE = {
    "openai chat, usual": Case(
        "openai_chat",
        "openai",
        "gpt-5",
        chat(1000, 100),
        ((1000, 1.25), (100, 10.0)),
        beside={"service_tier": "default"},
    ),
    "openai chat, flex": Case(
        "openai_chat",
        "openai",
        "gpt-5",
        chat(1000, 100, prompt_tokens_details={"cached_tokens": 400}),
        ((600, 0.625), (400, 0.0625), (100, 5.0)),
        beside={"service_tier": "flex"},
    ),
    # The prices of https://openai.com/api-priority-processing.
    "openai chat, priority": Case(
        "openai_chat",
        "openai",
        "gpt-5-mini",
        chat(1000, 100, prompt_tokens_details={"cached_tokens": 400}),
        ((600, 0.45), (400, 0.045), (100, 3.6)),
        beside={"service_tier": "priority"},
    ),
    "openai responses, priority": Case(
        "openai_responses",
        "openai",
        "gpt-5.5",
        responses(1000, 400, 100, 0),
        ((600, 12.5), (400, 1.25), (100, 75.0)),
        beside={"service_tier": "priority"},
    ),
    "openai responses, priority of an older model": Case(
        "openai_responses",
        "openai",
        "gpt-4.1-2025-04-14",
        responses(1000, 400, 100, 0),
        ((600, 3.5), (400, 0.875), (100, 14.0)),
        beside={"service_tier": "priority"},
    ),
    "openai responses, flex and long": Case(
        "openai_responses",
        "openai",
        "gpt-5.5",
        responses(300_000, 0, 1000, 0),
        ((300_000, 5.0), (1000, 22.5)),
        beside={"service_tier": "flex"},
    ),
    "openai responses, two searches and a page": Case(
        "openai_responses",
        "openai",
        "gpt-5",
        responses(1000, 0, 100, 0),
        ((1000, 1.25), (100, 10.0)),
        beside={"output": [SEARCHED, OPENED, SEARCHED]},
        fees=0.02,
    ),
    "openai responses, a search in files": Case(
        "openai_responses",
        "openai",
        "gpt-5",
        responses(1000, 0, 100, 0),
        ((1000, 1.25), (100, 10.0)),
        beside={"output": [{"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": []}]},
        fees=0.0025,
    ),
    "anthropic, searches beside a cache": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {
            "input_tokens": 2000,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 500,
            "output_tokens": 300,
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
            "service_tier": "standard",
            "inference_geo": "not_available",
        },
        ((2000, 3.0), (500, 0.3), (300, 15.0)),
        fees=0.02,
    ),
    "anthropic, fetched pages are free": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {
            "input_tokens": 2000,
            "output_tokens": 300,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 1},
        },
        ((2000, 3.0), (300, 15.0)),
    ),
    "anthropic, batch": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {"input_tokens": 2000, "output_tokens": 300, "service_tier": "batch"},
        ((2000, 1.5), (300, 7.5)),
    ),
    "anthropic, in one country": Case(
        "anthropic",
        "anthropic",
        "claude-opus-4-6",
        {"input_tokens": 1000, "output_tokens": 100, "service_tier": "standard", "inference_geo": "us"},
        ((1000, 5.5), (100, 27.5)),
    ),
    "anthropic, batch in one country": Case(
        "anthropic",
        "anthropic",
        "claude-opus-4-6",
        {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch", "inference_geo": "us"},
        ((1000, 2.75), (100, 13.75)),
    ),
    "gemini, flex": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100, "serviceTier": "flex"},
        ((1000, 0.15), (100, 1.25)),
    ),
    "gemini, usual traffic": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100, "trafficType": "ON_DEMAND"},
        ((1000, 0.3), (100, 2.5)),
    ),
    "gemini 2, three searches are one": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100},
        ((1000, 0.3), (100, 2.5)),
        beside={"groundingMetadata": {"webSearchQueries": ["a", "b", "c"]}},
        fees=0.035,
    ),
    "gemini 3, each search": Case(
        "gemini",
        "gemini",
        "gemini-3.1-pro-preview",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100},
        ((1000, 2.0), (100, 12.0)),
        beside={"groundingMetadata": {"webSearchQueries": ["a", "b", "c"]}},
        fees=0.042,
    ),
    # LiteLLM's price file 1.109.1: cached input of Gemini 2.5 costs as much as usual, elsewhere it is rounded.
    "gemini 2, flex and a cache": Case(
        "gemini",
        "gemini",
        "gemini-2.5-pro",
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 400,
            "candidatesTokenCount": 100,
            "serviceTier": "flex",
        },
        ((600, 0.625), (400, 0.125), (100, 5.0)),
    ),
    "gemini 3, flex and a cache": Case(
        "gemini",
        "gemini",
        "gemini-3.5-flash",
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 400,
            "candidatesTokenCount": 100,
            "serviceTier": "flex",
        },
        ((600, 0.75), (400, 0.08), (100, 4.5)),
    ),
    "gemini, priority and long": Case(
        "gemini",
        "gemini",
        "gemini-2.5-pro",
        {
            "promptTokenCount": 300_000,
            "cachedContentTokenCount": 100_000,
            "candidatesTokenCount": 100,
            "serviceTier": "priority",
        },
        ((200_000, 4.5), (100_000, 0.45), (100, 27.0)),
    ),
    "openai responses, flex with a rounded price": Case(
        "openai_responses",
        "openai",
        "gpt-5.4",
        responses(1000, 400, 100, 0),
        ((600, 1.25), (400, 0.13), (100, 7.5)),
        beside={"service_tier": "flex"},
    ),
    "openai responses, priority of a newer model, long": Case(
        "openai_responses",
        "openai",
        "gpt-5.6-sol",
        responses(300_000, 0, 100, 0),
        ((300_000, 16.0), (100, 60.0)),
        beside={"service_tier": "priority"},
    ),
    # https://support.claude.com/en/articles/15422948: only 4.6 and later cost more in one country.
    "anthropic, an earlier model in one country": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-5-20250929",
        {"input_tokens": 1000, "output_tokens": 100, "service_tier": "standard", "inference_geo": "us"},
        ((1000, 3.0), (100, 15.0)),
    ),
    "groq, flex costs the same": Case(
        "openai_compatible",
        "groq",
        "openai/gpt-oss-120b",
        chat(1000, 100),
        ((1000, 0.15), (100, 0.6)),
        beside={"service_tier": "flex"},
    ),
    "mistral, usual": Case(
        "mistral",
        "mistral",
        "mistral-small-latest",
        chat(1000, 100, service_tier="standard"),
        ((1000, 0.15), (100, 0.6)),
    ),
    "openrouter, by its own word": Case(
        "openrouter",
        "openrouter",
        "some/model-of-tomorrow",
        chat(100, 50, cost=0.00123, is_byok=False),
        (),
        fees=0.00123,
    ),
    "openrouter, with the user's own key": Case(
        "openrouter",
        "openrouter",
        "some/model-of-tomorrow",
        chat(100, 50, cost=0.0001, is_byok=True, cost_details={"upstream_inference_cost": 0.002}),
        (),
        fees=0.0021,
    ),
    "xai, its tools by its own word": Case(
        "openai_responses",
        "xai",
        "grok-4.3",
        {**responses(204, 128, 80, 79), "num_server_side_tools_used": 2, "cost_in_usd_ticks": 103_206_000},
        (),
        fees=0.0103206,
    ),
}

UNKNOWN = {
    "openai, scale is paid in advance": Case(
        "openai_chat",
        "openai",
        "gpt-5",
        chat(1000, 100),
        ((1000, 1.25), (100, 10.0)),
        beside={"service_tier": "scale"},
    ),
    "openai, priority of a model without such a price": Case(
        "openai_chat",
        "openai",
        "gpt-5-nano",
        chat(1000, 100),
        ((1000, 0.05), (100, 0.4)),
        beside={"service_tier": "priority"},
    ),
    "openai, a search by one of two tools with different prices": Case(
        "openai_responses",
        "openai",
        "gpt-4.1",
        responses(1000, 0, 100, 0),
        ((1000, 2.0), (100, 8.0)),
        beside={"output": [SEARCHED]},
    ),
    "anthropic, faster": Case(
        "anthropic",
        "anthropic",
        "claude-opus-5",
        {"input_tokens": 1000, "output_tokens": 100, "service_tier": "standard", "speed": "fast"},
        ((1000, 5.0), (100, 25.0)),
    ),
    "gemini, flex of a model that is not listed so": Case(
        "gemini",
        "gemini",
        "gemini-2.0-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100, "serviceTier": "flex"},
        ((1000, 0.1), (100, 0.4)),
    ),
    "openai, priority excludes long requests": Case(
        "openai_responses",
        "openai",
        "gpt-5.5",
        responses(300_000, 0, 1000, 0),
        ((300_000, 10.0), (1000, 45.0)),
        beside={"service_tier": "priority"},
    ),
    "openai, a program that ran": Case(
        "openai_responses",
        "openai",
        "gpt-5",
        responses(1000, 0, 100, 0),
        ((1000, 1.25), (100, 10.0)),
        beside={
            "output": [{"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c"}]
        },
    ),
    "azure, a search": Case(
        "openai_responses",
        "azure-openai",
        "gpt-5",
        responses(1000, 0, 100, 0),
        ((1000, 1.25), (100, 10.0)),
        beside={"output": [SEARCHED]},
    ),
    "anthropic, priority is paid in advance": Case(
        "anthropic",
        "anthropic",
        "claude-sonnet-4-6",
        {"input_tokens": 2000, "output_tokens": 300, "service_tier": "priority"},
        ((2000, 3.0), (300, 15.0)),
    ),
    "anthropic, fast": Case(
        "anthropic",
        "anthropic",
        "claude-opus-4-6",
        {"input_tokens": 1000, "output_tokens": 100, "speed": "fast"},
        ((1000, 5.0), (100, 25.0)),
    ),
    "gemini, priority": Case(
        "gemini",
        "gemini",
        "gemini-2.0-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100, "trafficType": "ON_DEMAND_PRIORITY"},
        ((1000, 0.1), (100, 0.4)),
    ),
    "gemini, provisioned": Case(
        "gemini",
        "gemini",
        "gemini-2.5-flash",
        {"promptTokenCount": 1000, "candidatesTokenCount": 100, "trafficType": "PROVISIONED_THROUGHPUT"},
        ((1000, 0.3), (100, 2.5)),
    ),
    "a word that nobody knows": Case(
        "openai_chat",
        "openai",
        "gpt-5",
        chat(1000, 100),
        ((1000, 1.25), (100, 10.0)),
        beside={"service_tier": "Whatever \x00" * 100},
    ),
}
"""What has no known price: the parts are what is known of it."""


def body_of(case: Case) -> dict[str, Any]:
    match case.wire:
        case "openai_responses":
            reply = {
                "id": "1",
                "object": "response",
                "status": "completed",
                "output": [],
                "usage": case.usage,
            }
            return {**reply, **case.beside}
        case "anthropic":
            return {"id": "1", "type": "message", "role": "assistant", "content": [], "usage": case.usage}
        case "gemini":
            part = {"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}
            return {"candidates": [{**part, **case.beside}], "usageMetadata": case.usage}
        case "ollama":
            return {"message": {"role": "assistant", "content": "a"}, "done": True, **case.usage}
        case _:
            choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
            return {"id": "1", "choices": [choice], "usage": case.usage, **case.beside}


def frames(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def chat_stream(body: dict[str, Any]) -> bytes:
    around = {name: value for name, value in body.items() if name not in ("choices", "usage")}
    first = {**around, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}}]}
    last = {**around, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": body["usage"]}
    return frames(first, last) + b"data: [DONE]\n\n"


def anthropic_stream(body: dict[str, Any]) -> bytes:
    return frames(
        {"type": "message_start", "message": {**body, "usage": {**body["usage"], "output_tokens": 1}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": body["usage"]},
        {"type": "message_stop"},
    )


STREAMS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "openai_chat": chat_stream,
    "openai_compatible": chat_stream,
    "openrouter": chat_stream,
    "mistral": chat_stream,
    "openai_responses": lambda body: frames({"type": "response.completed", "response": body}),
    "anthropic": anthropic_stream,
    "gemini": frames,
}
SEARCHERS = ("openai", "anthropic", "gemini")


def decoded(case: Case) -> Usage:
    return fold(DIALECTS[case.wire].decode_reply(json.dumps(body_of(case)).encode()), Origin(case.wire)).usage


ALL = CASES | MADE_OTHERWISE


@pytest.mark.parametrize("name", ALL)
def test_a_reply_costs_what_its_provider_charges(name: str) -> None:
    case = ALL[name]
    dollars = cost_of(decoded(case), case.provider, case.model)
    assert dollars == pytest.approx(case.by_hand, rel=1e-9)
    if case.charged is not None:
        assert dollars == pytest.approx(case.charged, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if name != "ollama"])
def test_another_table_comes_to_the_same(name: str) -> None:
    prices = pytest.importorskip("genai_prices")
    case = CASES[name]
    usage = decoded(case)
    counted = prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_hour_tokens,
        output_tokens=usage.output_tokens,
        input_audio_tokens=usage.audio_input_tokens,
    )
    theirs = catalog().prices.names.get(case.provider, case.provider)
    try:
        price = float(prices.calc_price(counted, case.model, provider_id=theirs).total_price)
    except LookupError:
        pytest.skip(f"it does not know {case.model}")
    assert price == pytest.approx(case.by_hand, rel=1e-9)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_known_price_is_unknown_and_at_least_what_is_known_of_it(name: str) -> None:
    case = UNKNOWN[name]
    usage = decoded(case)
    assert cost_of(usage, case.provider, case.model) is None
    least = CATALOG_PRICES.least_cost(usage, case.provider, case.model)
    assert least == pytest.approx(case.by_hand, rel=1e-9)


@pytest.mark.parametrize(
    "name", [name for name, case in MADE_OTHERWISE.items() if case.provider in SEARCHERS and case.fees]
)
def test_another_table_has_the_same_price_for_a_search(name: str) -> None:
    prices = pytest.importorskip("genai_prices")
    case = MADE_OTHERWISE[name]
    usage = decoded(case)
    once = "gemini-2" in case.model
    searches = {"web_searches": 1 if once else usage.web_searches, "storage_searches": usage.file_searches}
    counted = prices.Usage(**{name: count for name, count in searches.items() if count})
    theirs = catalog().prices.names.get(case.provider, case.provider)
    price = prices.calc_price(counted, case.model, provider_id=theirs).total_price
    assert float(price) == pytest.approx(case.fees)


@pytest.mark.parametrize("name", [name for name, case in (ALL | UNKNOWN).items() if case.wire in STREAMS])
def test_a_streamed_reply_costs_the_same(name: str) -> None:
    case = (ALL | UNKNOWN)[name]
    dialect = DIALECTS[case.wire]
    decoder = dialect.new_decoder()
    events = [*decoder.feed(STREAMS[case.wire](body_of(case))), *decoder.close()]
    assert fold(events, Origin(case.wire)).usage == decoded(case)


def test_prices_of_tiers_and_searches_can_be_set() -> None:
    rules: dict[str, float | PriceRule] = {
        "own/*": PriceRule(input=1, output=2, tiers={"priority": 3}, web_search=5),
        "free/*": 0,
        "azure-openai/gpt-5": PriceRule(like="openai/gpt-5"),
    }
    book = PriceBook(rules)
    usage = Usage(1_000_000, 0, tier="priority", web_searches=2)
    assert book.cost_of(usage, "own", "m") == pytest.approx(3.01)
    assert book.cost_of(Usage(1_000_000, 0, tier="flex"), "own", "m") is None
    assert book.cost_of(Usage(1_000_000, 0, tier="flex"), "free", "m") == 0
    assert book.cost_of(usage, "azure-openai", "gpt-5") == pytest.approx(2.52)


def test_counts_of_several_ways_have_no_price_together() -> None:
    flex, usual = Usage(10, 1, tier="flex"), Usage(10, 1)
    assert flex.plus(flex) == Usage(20, 2, tier="flex")
    assert Usage().plus(flex) == flex
    assert flex.plus(Usage()) == flex
    assert cost_of(flex.plus(usual), "openai", "gpt-5") is None


@pytest.mark.parametrize("dollars", [-1, 1e300, float("nan"), True, "1", 10_000, None])
def test_no_word_about_money_is_believed_that_cannot_be_true(dollars: object) -> None:
    assert with_price_facts(Usage(1, 1), charged=dollars) == Usage(1, 1)
