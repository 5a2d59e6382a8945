"""The catalog of models: every line of it is legal, and the first card that fits a name holds."""

from __future__ import annotations

import pytest
from msgspec import ValidationError

from segue.dialects.card import UNKNOWN, fit_rules
from segue.dialects.registry import NAMES
from segue.providers.models.cards import (
    card_for_model,
    card_table,
    default_model,
    dialect_of_model,
    read_cards,
)
from segue.transcript.rules import NINE_CHARACTERS
from strategies.targets import RULES


def test_every_card_speaks_for_dialects_that_exist() -> None:
    assert card_table().cards
    for card in card_table().cards:
        assert set(card.dialects) <= set(NAMES), card.match


def test_patterns_are_lower_case_as_names_are_when_they_are_matched() -> None:
    for card in card_table().cards:
        assert card.match == card.match.lower()
    for match, dialect in card_table().model_dialects:
        assert match == match.lower()
        assert dialect in NAMES


def test_every_dialect_has_a_default_model_that_can_call_tools() -> None:
    assert set(card_table().defaults) == set(NAMES)
    for dialect in NAMES:
        card = card_for_model(default_model(dialect), dialect)
        assert card.tools
        assert card.chat_tools


def test_no_card_is_hidden_behind_an_earlier_one_with_the_same_pattern() -> None:
    seen: set[tuple[str, str]] = set()
    for card in card_table().cards:
        for dialect in card.dialects or NAMES:
            assert (card.match, dialect) not in seen, card.match
            seen.add((card.match, dialect))


def test_every_card_can_be_fitted_to_the_rules_of_its_dialects() -> None:
    for card in card_table().cards:
        for dialect in card.dialects or NAMES:
            fitted = fit_rules(RULES[dialect], card)
            assert fitted.target.dialect == dialect


def test_a_fact_nobody_declared_is_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        read_cards({"model": [{"match": "x", "colour": "blue"}]})


def test_several_patterns_make_several_cards() -> None:
    read = read_cards({"model": [{"match": ["a*", "b*"], "context": 5}]})
    assert [(card.match, card.context) for card in read.cards] == [("a*", 5), ("b*", 5)]


def test_an_unknown_model_is_known_by_nothing() -> None:
    assert card_for_model("somebody/brand-new-7b", "openai_chat") == UNKNOWN


@pytest.mark.parametrize(
    "name", ["claude-opus-5-5", "anthropic/claude-opus-5-5", "us.anthropic.Claude-Opus-5-5-v1:0"]
)
def test_a_vendors_path_and_the_case_do_not_matter(name: str) -> None:
    card = card_for_model(name, "anthropic")
    assert card.forced_choice is False
    assert card.bound_seals is True


def test_older_claude_models_may_be_given_the_start_of_an_answer_and_newer_ones_not() -> None:
    assert card_for_model("claude-sonnet-4-5-20250929", "anthropic").ends_with_model is True
    assert card_for_model("claude-sonnet-4-6", "anthropic").ends_with_model is False
    assert card_for_model("claude-opus-5", "anthropic").ends_with_model is False


def test_a_card_of_one_dialect_says_nothing_in_another() -> None:
    assert card_for_model("claude-opus-5-5", "openrouter").forced_choice is True
    assert card_for_model("llama-3.1-8b-instruct", "vllm").parallel_calls is False
    assert card_for_model("llama-3.1-8b-instruct", "groq").parallel_calls is True


def test_gemini_before_the_third_generation_knows_no_ids_and_no_seals_on_calls() -> None:
    older, newer = card_for_model("gemini-2.5-pro", "gemini"), card_for_model("gemini-3.7-flash", "gemini")
    assert (older.call_ids, older.call_seals) == (False, False)
    assert newer.call_ids
    assert newer.call_seals is None


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("kimi-k2.6", "kimi"),
        ("moonshotai/Kimi-K2-Instruct", "kimi"),
        ("deepseek-v4-pro", "deepseek"),
        ("MiniMax-M2", "minimax"),
        ("open-mixtral-8x7b", "mistral"),
        ("gpt-4.1", ""),
    ],
)
def test_a_models_name_may_tell_the_dialect(model: str, dialect: str) -> None:
    assert dialect_of_model(model) == dialect


@pytest.mark.parametrize("dialect", ["ollama", "ollama_v1"])
@pytest.mark.parametrize("name", ["mistral-nemo", "hf.co/mistralai/Ministral-3-14B-GGUF", "mixtral:8x7b"])
def test_behind_ollama_mistral_models_keep_the_rules_of_their_templates(dialect: str, name: str) -> None:
    rules = fit_rules(RULES[dialect], card_for_model(name, dialect))
    assert rules.bridge
    assert rules.ids == NINE_CHARACTERS
    plain = fit_rules(RULES[dialect], card_for_model("qwen3", dialect))
    assert not plain.bridge
    assert plain.ids == RULES[dialect].ids


@pytest.mark.parametrize("dialect", ["ollama", "ollama_v1"])
@pytest.mark.parametrize("name", ["llama3.1:8b", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF"])
def test_a_model_is_known_by_its_own_name_as_by_that_of_a_library(dialect: str, name: str) -> None:
    assert fit_rules(RULES[dialect], card_for_model(name, dialect)).calls_per_step == 1


@pytest.mark.parametrize("dialect", ["vllm", "llama_cpp", "ollama", "ollama_v1"])
def test_the_first_gemmas_know_neither_tools_nor_a_system_prompt(dialect: str) -> None:
    card = card_for_model("google/gemma-2-2b-it", dialect)
    assert not card.tools
    assert fit_rules(RULES[dialect], card).system == "first_user"


SEES, THINKS, CALLS = "vision", "reasoning", "tools"
REAL_MODELS: dict[str, dict[str, set[str]]] = {
    "ollama": {
        "qwen3:8b": {THINKS, CALLS},
        "qwen3:30b-a3b-thinking-2507-q4_K_M": {THINKS, CALLS},
        "qwen3:30b-a3b-instruct-2507-q4_K_M": {CALLS},
        "qwen3-coder:30b": {CALLS},
        "qwen3-vl:8b": {SEES, THINKS, CALLS},
        "qwen3-vl:8b-instruct": {SEES, CALLS},
        "qwen3.5:9b": {SEES, THINKS, CALLS},
        "gpt-oss:20b": {THINKS, CALLS},
        "llama3.1:8b": {CALLS},
        "llama3.2-vision:11b": {SEES},
        "llama4:scout": {SEES, CALLS},
        "gemma2:9b": set(),
        "gemma3:270m": set(),
        "gemma3:1b": set(),
        "gemma3:4b": {SEES},
        "gemma3n:e4b": set(),
        "mistral:7b": {CALLS},
        "mistral-nemo:12b": {CALLS},
        "mistral-small3.2:24b": {SEES, CALLS},
        "llava:7b": {SEES},
        "llava-llama3:8b": {SEES},
        "smollm2:1.7b": {CALLS},
    },
    "vllm": {
        "Qwen/Qwen3-VL-8B-Instruct": {SEES, CALLS},
        "meta-llama/Llama-3.2-11B-Vision-Instruct": {SEES, CALLS},
        "google/gemma-2-9b-it": set(),
        "google/medgemma-1.5-4b-it": {SEES},
        "google/paligemma2-3b-mix-448": {SEES},
        "mistralai/Mistral-7B-Instruct-v0.3": {CALLS},
        "llava-hf/llava-v1.6-mistral-7b-hf": {SEES},
    },
    "mistral": {
        "open-mistral-7b": set(),
        "open-mixtral-8x7b": set(),
        "open-mixtral-8x22b": {CALLS},
        "open-mistral-nemo": {CALLS},
        "pixtral-large-latest": {SEES, CALLS},
        "mistral-large-2411": {CALLS},
        "mistral-large-2512": {SEES, CALLS},
    },
    "kimi": {
        "kimi-k2.6": {SEES, THINKS, CALLS},
        "kimi-k2-thinking": {THINKS, CALLS},
        "kimi-k2-0905-preview": {CALLS},
        "moonshot-v1-8k-vision-preview": {SEES, CALLS},
        "moonshot-v1-8k": {CALLS},
    },
    "qwen": {
        "qwen3-vl-plus": {SEES, CALLS},
        "qwen3-vl-235b-a22b-thinking": {SEES, THINKS, CALLS},
    },
    "openai_chat": {
        "gpt-4": {CALLS},
        "gpt-4-turbo": {SEES, CALLS},
        "gpt-4o-mini": {SEES, CALLS},
        "gpt-4.1": {SEES, CALLS},
        "gpt-3.5-turbo": {CALLS},
    },
}


@pytest.mark.parametrize(
    ("dialect", "model"), [(dialect, model) for dialect, models in REAL_MODELS.items() for model in models]
)
def test_a_pattern_takes_no_ability_from_a_model_of_another_family(dialect: str, model: str) -> None:
    card = card_for_model(model, dialect)
    found = {CALLS} if card.tools else set()
    found |= set() if card.images is False else {SEES}
    found |= set() if card.thinking in ("", "none") else {THINKS}
    assert found == REAL_MODELS[dialect][model]
