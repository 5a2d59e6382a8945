"""Providers keep every promise, against a strict stand-in of its service over real HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from segue.emulators.server import Served, serve
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.hosts.addresses import AuthStyle, addresses
from segue.providers.registry import default_registry
from segue.testing.fake_service import EmulatedService
from segue.testing.provider_checks import Report, check_provider
from strategies.provider_places import CLOUDS
from strategies.samples import sample

KEY = "sk-conformance-0123456789"
OTHERS = (
    "qwen",
    "glm",
    "minimax",
    "xai",
    "groq",
    "openrouter",
    "together",
    "vllm",
    "llama.cpp",
    "lm-studio",
    "github-models",
    "databricks",
    "cloudflare",
    "fireworks",
    "nvidia",
    "cohere",
    "cerebras",
    "sambanova",
    "perplexity",
)
"""Those that speak the Chat wire in their own way and have no emulator of their own."""
PLACES = (
    ("openai", "openai", "/v1", "gpt-4.1"),
    ("openai", "openai", "/v1", "gpt-5.6"),
    ("anthropic", "anthropic", "", "claude-sonnet-4-6"),
    ("anthropic", "anthropic", "", "claude-opus-5-5"),
    ("gemini", "gemini", "/v1beta", "gemini-3.5-flash"),
    ("gemini", "gemini", "/v1beta", "gemini-2.5-flash"),
    ("mistral", "mistral", "/v1", "mistral-large-latest"),
    ("kimi", "kimi", "/v1", "kimi-k2.6"),
    ("deepseek", "deepseek", "", "deepseek-v4-flash"),
    ("ollama", "ollama", "", "qwen3"),
    ("bedrock", "bedrock", "", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "bedrock", "", "us.anthropic.claude-opus-4-7"),
    ("bedrock-invoke", *CLOUDS["bedrock-invoke"], "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock-mantle", *CLOUDS["bedrock-mantle"], "anthropic.claude-opus-4-8"),
    ("claude-aws", *CLOUDS["claude-aws"], "claude-sonnet-4-6"),
    ("openai-compatible", "openai", "/v1", "gpt-4.1"),
    ("anthropic-compatible", "anthropic", "", "claude-sonnet-4-6"),
    ("kimi-for-coding", "anthropic", "", "claude-sonnet-4-6"),
    ("azure-openai", *CLOUDS["azure-openai"], "gpt-4.1"),
    ("azure-openai", *CLOUDS["azure-openai"], "gpt-5.6"),
    ("azure-anthropic", *CLOUDS["azure-anthropic"], "claude-sonnet-4-6"),
    ("vertex", *CLOUDS["vertex"], "gemini-3.5-flash"),
    ("vertex", *CLOUDS["vertex"], "gemini-2.5-flash"),
    ("vertex-anthropic", *CLOUDS["vertex-anthropic"], "claude-sonnet-4-6"),
    ("vertex-anthropic", *CLOUDS["vertex-anthropic"], "claude-opus-5-5"),
    ("claude-google-cloud", "anthropic", "", "claude-sonnet-4-6"),
    *((name, "openai", "/v1", "gpt-4.1") for name in OTHERS),
)


SOME_PLACES = (
    PLACES
    if os.environ.get("SEGUE_STORIES")
    else [place for place in PLACES if place[0] not in OTHERS] + sample(PLACES[-len(OTHERS) :], 5)
)
"""Of those without an emulator of their own a sample, and all of them in `make stories`."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve() as running:
        yield running


def test_every_known_provider_is_checked() -> None:
    assert {name for name, *_ in PLACES} == set(addresses().providers)


@pytest.mark.requirement(
    "Property 10",
    "Property 11",
    "Property 16",
    "Scenario: Chat Completion",
    "Scenario: Chat Completion with Tools",
    "Scenario: Tool Call Response Format",
    "Scenario: Tool Call Arguments Parsing",
)
@pytest.mark.parametrize(
    ("name", "service", "path", "model"), SOME_PLACES, ids=lambda value: value.strip("/")
)
def test_a_provider_keeps_every_promise(
    served: Served, name: str, service: str, path: str, model: str
) -> None:
    fake = EmulatedService(served, service)
    # The emulators do not know the header of a gateway before them, and Anthropic's own API takes no token for a project.
    auth: AuthStyle | None = "bearer" if addresses().providers[name].auth == "cf-aig-authorization" else None
    config = ProviderConfig(base_url=fake.url + path, api_key=Secret(KEY), auth=auth, workspace="wrkspc_01")

    async def check() -> Report:
        provider = default_registry(configs={name: config}, environ={}).get(name)
        assert provider is not None
        return await check_provider(lambda: provider, model=model, service=fake)

    report = asyncio.run(check())
    assert report.passed, str(report)
    assert not any(outcome.skipped for outcome in report.outcomes), str(report)
