from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.events import Event, Finished
from segue.conversation.message import Conversation, user
from segue.errors import UsageError
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.addresses import addresses
from segue.providers.auth import Secret, write_key_file
from segue.providers.config import ProviderConfig
from segue.providers.provider import Provider
from segue.providers.registry import KnownProviders, ProviderRegistry, default_registry
from segue.providers.scripted import ScriptedProvider

names = st.text(min_size=1, max_size=12).filter(lambda name: name.strip())


def known(environ: dict[str, str] | None = None, **settings: Any) -> KnownProviders:
    return default_registry(environ=environ or {}, keyring=False, **settings)


@pytest.mark.requirement("Property 1")
@given(st.lists(names, unique=True))
def test_a_registered_provider_is_found_by_its_name(all_names: list[str]) -> None:
    registry = ProviderRegistry()
    adapters = {name: ScriptedProvider(name=name) for name in all_names}
    for adapter in adapters.values():
        registry.register(adapter)
    for name, adapter in adapters.items():
        assert registry.get(name) is adapter
        assert name in registry


@pytest.mark.requirement("Property 2")
@given(st.lists(names, unique=True, min_size=1), st.data())
def test_the_default_is_found_with_and_without_asking_for_it(
    all_names: list[str], data: st.DataObject
) -> None:
    registry = ProviderRegistry()
    for name in all_names:
        registry.register(ScriptedProvider(name=name))
    chosen = data.draw(st.sampled_from(all_names))
    registry.set_default(chosen)
    assert registry.get_default() is registry.get() is registry.get(chosen)


@pytest.mark.requirement("Property 3")
@given(st.lists(st.tuples(names, st.sampled_from(["register", "replace", "unregister"])), max_size=20))
def test_the_list_is_exact(steps: list[tuple[str, str]]) -> None:
    registry = ProviderRegistry()
    expected: list[str] = []
    for name, step in steps:
        if step == "unregister":
            if name in expected:
                registry.unregister(name)
                expected.remove(name)
        elif step == "replace" or name not in expected:
            registry.register(ScriptedProvider(name=name), replace=step == "replace")
            expected += [] if name in expected else [name]
    assert registry.list() == expected


def test_an_empty_registry_says_so() -> None:
    registry = ProviderRegistry()
    assert registry.list() == []
    assert registry.get("x") is None
    for ask in (registry.get, registry.get_default):
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.message == "No default provider set"


@pytest.mark.parametrize("what", ["set_default", "unregister"])
def test_an_unknown_name_is_refused(what: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(ProviderRegistry(), what)("x")
    assert caught.value.message == 'Provider "x" not registered'


def test_a_default_that_is_unregistered_is_none_any_more() -> None:
    registry = ProviderRegistry()
    registry.register(ScriptedProvider(name="x"))
    registry.set_default("x")
    registry.unregister("x")
    with pytest.raises(UsageError, match="No default provider set"):
        registry.get_default()


def test_a_default_that_has_vanished_is_told() -> None:
    class Forgetful(ProviderRegistry):
        def get(self, name: str | None = None) -> ProviderAdapter | None:
            return None

    registry = Forgetful()
    registry.register(ScriptedProvider(name="x"))
    registry.set_default("x")
    with pytest.raises(UsageError) as caught:
        registry.get_default()
    assert caught.value.message == 'Default provider "x" not found'


def test_a_second_provider_of_the_same_name_is_refused_unless_it_replaces_the_first() -> None:
    registry = ProviderRegistry()
    first, second = ScriptedProvider(name="x"), ScriptedProvider(name="x")
    registry.register(first)
    with pytest.raises(UsageError) as caught:
        registry.register(second)
    assert caught.value.code == "duplicate_provider"
    assert registry.get("x") is first
    registry.register(second, replace=True)
    assert registry.get("x") is second


class Streamless:
    name = "x"


@pytest.mark.parametrize(
    "adapter", [ScriptedProvider(name=""), ScriptedProvider(name="  "), Streamless(), object()]
)
def test_what_is_no_provider_is_refused(adapter: Any) -> None:
    registry = ProviderRegistry()
    kept = ScriptedProvider(name="x")
    registry.register(kept)
    with pytest.raises(UsageError):
        registry.register(adapter, replace=True)
    assert registry.get("x") is kept


# Those that are known


def test_every_known_provider_can_be_made_and_is_made_once() -> None:
    config = ProviderConfig(base_url="http://127.0.0.1:9/v1")
    registry = known(configs=dict.fromkeys(addresses().providers, config))
    for name in addresses().providers:
        made = registry.get(name)
        assert isinstance(made, Provider)
        assert made.name == name
        assert registry.get(name) is made


def test_the_issue_s_providers_are_all_there() -> None:
    wanted = (
        "openai anthropic gemini mistral kimi moonshot ollama deepseek qwen glm minimax xai groq openrouter "
        "together vllm llama.cpp lm-studio scripted"
    )
    registry = known()
    assert all(registry.get(name) is not None for name in wanted.split())
    assert {"azure-openai", "openai-compatible", "anthropic-compatible", "embedded"} <= set(registry.list())


def test_other_names_that_people_type_lead_to_the_same_provider() -> None:
    registry = known()
    assert registry.get("google") is registry.get("gemini")
    registry.set_default("moonshot")
    assert registry.get_default() is registry.get("kimi")
    assert registry.get("nobody") is None


def test_a_name_of_ones_own_with_an_address_is_a_provider() -> None:
    registry = known(configs={"mine": ProviderConfig(base_url="http://127.0.0.1:9/v1")})
    made = registry.get("mine")
    assert isinstance(made, Provider)
    assert made.name == "mine"
    assert made.endpoint.base_url == "http://127.0.0.1:9/v1"
    assert "mine" in registry.configured()


def test_those_with_a_key_or_without_need_of_one_are_configured(tmp_path: Path) -> None:
    local = {"ollama", "vllm", "llama.cpp", "lm-studio"}
    assert set(known().configured()) == local
    environ = {"GEMINI_API_KEY": "k", "OPENAI_API_KEY": " ", "AZURE_API_KEY": "k"}
    assert set(known(environ).configured()) == {"gemini", *local}
    environ["AZURE_OPENAI_ENDPOINT"] = "https://x.openai.azure.com"
    assert set(known(environ).configured()) == {"gemini", "azure-openai", *local}
    write_key_file(tmp_path / "keys", {"groq": "k"})
    assert set(known(key_file=tmp_path / "keys").configured()) == {"groq", *local}
    configs = {
        "mistral": ProviderConfig(api_key=Secret("k")),
        "xai": ProviderConfig(key_command="false"),
        "kimi": ProviderConfig(api_key_env="MY_KEY"),
    }
    assert set(known({"MY_KEY": "k"}, configs=configs).configured()) == {"mistral", "kimi", *local}


class Foreign(ProviderAdapter):
    name = "foreign"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[Event]:
        yield Finished("stop")


def broken() -> ProviderAdapter:
    raise RuntimeError("no licence")


def test_other_packages_offer_providers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "segue.providers"
    points = EntryPoints(
        EntryPoint(name, f"{__name__}:{what}", group)
        for name, what in (("foreign", "Foreign"), ("broken", "broken"), ("openai", "Foreign"))
    )
    monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.value.rpartition(":")[2]])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)
    registry = known()
    foreign = registry.get("foreign")
    assert isinstance(foreign, Foreign)
    request = ChatRequest(model="", conversation=Conversation().append(user("Hi.")))
    assert asyncio.run(foreign.generate_chat(request))["finish_reason"] == "stop"
    assert isinstance(registry.get("openai"), Provider)
    with pytest.raises(UsageError) as caught:
        registry.get("broken")
    assert caught.value.code == "provider_not_loaded"
    assert "no licence" in str(caught.value)
