from __future__ import annotations

from base64 import b64encode

import pytest

from segue.conversation.message import Conversation, user
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.providers.adapter import ChatRequest
from segue.providers.addresses import addresses, complete_url, find_address, path_of
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.models.cards import card_for_model, card_table


@pytest.mark.parametrize(
    ("told", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("192.168.1.7", "http://192.168.1.7:11434"),
        ("box:9000", "http://box:9000"),
        ("http://box:9000/", "http://box:9000"),
        ("https://ollama.example.test", "https://ollama.example.test"),
        ("https://ollama.example.test/behind/", "https://ollama.example.test/behind"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - nothing is bound
        ("0.0.0.0:5555", "http://127.0.0.1:5555"),
        ("[::1]:5555", "http://[::1]:5555"),
        ("[::1]", "http://[::1]:11434"),
        ("  localhost \n", "http://localhost:11434"),
    ],
)
def test_the_host_of_ollama_is_understood_however_it_is_written(told: str, url: str) -> None:
    provider = connect("ollama", environ={"OLLAMA_HOST": told}, keyring=False)
    assert provider.endpoint.base_url == url


@pytest.mark.parametrize(
    "told",
    [
        "ftp://host",
        "http://",
        "http://host:port",
        "://",
        "http://[::1",
        "not a url",
        "https://not a url/v1",
        "http://a,b",
        "<host>",
    ],
)
@pytest.mark.requirement("Scenario: Configuration Validation")
def test_what_is_no_address_is_refused(told: str) -> None:
    address = find_address("ollama")
    assert address is not None
    with pytest.raises(UsageError) as caught:
        complete_url(told, address)
    assert caught.value.path == "providers.ollama.base_url"


@pytest.mark.parametrize(
    ("name", "variable", "told", "url"),
    [
        ("openai", "OPENAI_BASE_URL", "https://proxy.test/v1", "https://proxy.test/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "https://proxy.test", "https://proxy.test"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://proxy.test", "https://proxy.test/v1beta"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://proxy.test/team/", "https://proxy.test/team/v1beta"),
        (
            "gemini",
            "GOOGLE_GEMINI_BASE_URL",
            "https://proxy.test/team/v1beta",
            "https://proxy.test/team/v1beta",
        ),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://proxy.test/v1", "https://proxy.test/v1"),
        ("vllm", "VLLM_BASE_URL", "gpu:8000", "http://gpu:8000/v1"),
    ],
)
def test_the_base_url_of_the_environment_is_honoured(name: str, variable: str, told: str, url: str) -> None:
    assert connect(name, environ={variable: told}, keyring=False).endpoint.base_url == url


def test_every_address_speaks_dialects_that_exist_at_paths_that_exist() -> None:
    for name, address in addresses().providers.items():
        assert address.name == name
        assert address.title
        assert all(dialect in DIALECTS and path_of(dialect, "m") for dialect in address.dialects)
        assert address.base_url == address.base_url.rstrip("/")
        assert not address.needs_key or address.key_env


@pytest.mark.requirement("Scenario: Provider Initialization")
@pytest.mark.parametrize("name", addresses().providers)
def test_every_provider_has_a_variable_for_its_address(name: str) -> None:
    address = addresses().providers[name]
    others = [a for a in addresses().providers.values() if a is not address]
    variable = address.base_url_env[0]
    assert not any(variable in other.base_url_env for other in others)
    provider = connect(name, environ={variable: "http://here.test:81/x"}, keyring=False)
    assert provider.endpoint.base_url.startswith("http://here.test:81/x")


def test_no_name_means_two_providers() -> None:
    names = [n for a in addresses().providers.values() for n in (a.name, *a.aliases)]
    assert len(set(names)) == len(names)


def test_a_wire_in_the_catalog_is_a_dialect_that_the_same_providers_speak() -> None:
    for card in card_table().cards:
        if card.wire:
            assert card.wire in card.dialects
            assert any(set(card.dialects) <= set(a.dialects) for a in addresses().providers.values())


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("gpt-4.1", ""),
        ("gpt-4o-mini", ""),
        ("gpt-5.6", "openai_responses"),
        ("gpt-5-codex", "openai_responses"),
        ("gpt-5-chat-latest", ""),
        ("o3-pro", "openai_responses"),
        ("o3", ""),
    ],
)
def test_the_catalog_says_which_wire_a_model_needs(model: str, wire: str) -> None:
    assert card_for_model(model, "openai_chat").wire == wire


def test_a_name_a_password_and_a_query_in_an_address_are_sent_but_never_shown() -> None:
    config = ProviderConfig(base_url="https://me:s%40fe-word@host.test/v1?token=hidden-token")
    provider = connect("openai-compatible", config, environ={}, keyring=False)
    endpoint = provider.endpoint
    assert endpoint.base_url == "https://host.test/v1"
    assert endpoint.url("/models") == "https://host.test/v1/models?token=hidden-token"
    assert endpoint.headers()["authorization"] == f"Basic {b64encode(b'me:s@fe-word').decode()}"
    request = ChatRequest(model="m", conversation=Conversation().append(user("Hi.")))
    shown = f"{provider.preview(request)!r} {provider!r} {vars(provider)!r} {config!r}"
    for secret in ("s%40fe", "s@fe", "hidden-token"):
        assert secret not in shown
