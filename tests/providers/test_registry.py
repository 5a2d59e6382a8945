from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.message import Conversation, user
from segue.errors import UsageError
from segue.providers.adapter import ChatRequest, ProviderAdapter
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret, write_key_file
from segue.providers.embedded import EmbeddedProvider
from segue.providers.hosts.addresses import addresses
from segue.providers.provider import Provider
from segue.providers.registry import KnownProviders, ProviderRegistry, default_registry
from segue.providers.scripted import ScriptedProvider
from strategies.examples import AT_LEAST_100

names = st.text(min_size=1, max_size=12).filter(lambda name: name.strip())


def known(environ: dict[str, str] | None = None, **settings: Any) -> KnownProviders:
    return default_registry(environ=environ or {}, keyring=False, **settings)


@AT_LEAST_100
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


@AT_LEAST_100
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


@AT_LEAST_100
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
    config = ProviderConfig(base_url="http://127.0.0.1:9/v1", workspace="wrkspc_01", project="p")
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


def test_those_with_a_key_or_without_need_of_one_are_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_MODELS", str(tmp_path))
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


FOREIGN = """
from segue.conversation.events import Finished
from segue.providers.adapter import ProviderAdapter

class Foreign(ProviderAdapter):
    name = "foreign"

    async def chat_stream(self, request):
        yield Finished("stop")

def broken():
    raise RuntimeError("no licence")
"""


def install(folder: Path, **points: str) -> None:
    """A distribution as an installer would leave it."""
    facts = folder / "segue_foreign-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: segue-foreign\nVersion: 1.0\n")
    lines = [f"{name} = segue_foreign:{what}" for name, what in points.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[segue.providers]", *lines, ""]))
    (folder / "segue_foreign.py").write_text(FOREIGN)


def test_other_packages_offer_providers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, foreign="Foreign", broken="broken", missing="Nothing", openai="Foreign")
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.WARNING, "segue"):
        registry = known()
        assert "foreign" in registry.list()
    assert "segue_foreign" not in sys.modules
    assert 'offers a provider "openai"' in caplog.text
    foreign = registry.get("foreign")
    assert foreign is not None
    request = ChatRequest(model="", conversation=Conversation().append(user("Hi.")))
    assert asyncio.run(foreign.generate_chat(request))["finish_reason"] == "stop"
    assert "foreign" in registry.configured()
    assert isinstance(registry.get("openai"), Provider)
    for name, why in (("broken", "no licence"), ("missing", "Nothing")):
        with pytest.raises(UsageError, match=why) as caught:
            registry.get(name)
        assert caught.value.code == "provider_not_loaded"


def test_a_model_in_this_process_is_made_as_its_section_says_and_configured_when_it_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_MODELS", str(tmp_path))
    registry = known(configs={"embedded": ProviderConfig(model="smollm2", context=512)})
    embedded = registry.get("embedded")
    assert isinstance(embedded, EmbeddedProvider)
    assert embedded.model == "smollm2"
    shown = asyncio.run(embedded.show_model("smollm2"))
    assert shown.context == 512
    assert "embedded" not in registry.configured()
