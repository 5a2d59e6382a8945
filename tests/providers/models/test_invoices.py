"""Usage objects as every provider sends them, and what each comes to: by hand, by genai-prices, and by the provider's own
word where it tells what it charged. The figures are those of recorded replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Struct

from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.conversation.usage import Usage
from segue.dialects import DIALECTS
from segue.providers.models.catalog import catalog
from segue.providers.models.prices import cost_of


class Case(Struct, frozen=True):
    """A usage object, and the price of each of its parts: so many tokens at so many dollars for a million."""

    wire: str
    provider: str
    model: str
    usage: dict[str, Any]
    parts: tuple[tuple[int, float], ...]
    charged: float | None = None
    """By the provider's own word."""

    @property
    def by_hand(self) -> float:
        return sum(tokens * dollars for tokens, dollars in self.parts) / 1_000_000


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


def body_of(case: Case) -> dict[str, Any]:
    match case.wire:
        case "openai_responses":
            return {"id": "1", "object": "response", "status": "completed", "output": [], "usage": case.usage}
        case "anthropic":
            return {"id": "1", "type": "message", "role": "assistant", "content": [], "usage": case.usage}
        case "gemini":
            part = {"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}
            return {"candidates": [part], "usageMetadata": case.usage}
        case "ollama":
            return {"message": {"role": "assistant", "content": "a"}, "done": True, **case.usage}
        case _:
            choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
            return {"id": "1", "choices": [choice], "usage": case.usage}


def decoded(case: Case) -> Usage:
    return fold(DIALECTS[case.wire].decode_reply(json.dumps(body_of(case)).encode()), Origin(case.wire)).usage


@pytest.mark.parametrize("name", CASES)
def test_a_reply_costs_what_its_provider_charges(name: str) -> None:
    case = CASES[name]
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
