from __future__ import annotations

from base64 import b64encode

import pytest

from segue.conversation.message import Conversation, user
from segue.dialects.registry import DIALECTS
from segue.errors import UsageError
from segue.providers.adapter import ChatRequest
from segue.providers.config import ProviderConfig, check_config
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses, complete_url, find_address, path_of
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
    places = {names[0]: place for place, names in address.places.items()}
    provider = connect(name, environ={variable: "http://here.test:81/x", **places}, keyring=False)
    assert provider.endpoint.base_url.startswith("http://here.test:81/x")


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("", "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west1", "europe-west1-aiplatform.googleapis.com"),
    ],
)
@pytest.mark.parametrize(("name", "publisher"), [("vertex", "google"), ("vertex-anthropic", "anthropic")])
def test_the_host_of_vertex_depends_on_the_location(
    location: str, host: str, name: str, publisher: str
) -> None:
    config = ProviderConfig(project="p", location=location)
    place = f"projects/p/locations/{location or 'global'}/publishers/{publisher}"
    assert connect(name, config, environ={}, keyring=False).endpoint.base_url == f"https://{host}/v1/{place}"


@pytest.mark.parametrize(
    ("name", "variable", "given", "expected"),
    [
        ("vertex", "GOOGLE_VERTEX_BASE_URL", "https://proxy.test", "https://proxy.test/v1/projects/p/"),
        (
            "vertex-anthropic",
            "ANTHROPIC_VERTEX_BASE_URL",
            "https://proxy.test/v1",
            "https://proxy.test/v1/projects/p/",
        ),
        (
            "vertex",
            "GOOGLE_VERTEX_BASE_URL",
            "https://proxy.test/team/",
            "https://proxy.test/team/v1/projects/p/",
        ),
    ],
)
def test_what_clients_of_vertex_add_to_the_address_of_the_environment_is_added(
    name: str, variable: str, given: str, expected: str
) -> None:
    environ = {variable: given, "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"}
    base_url = connect(name, environ=environ, keyring=False).endpoint.base_url
    assert base_url.startswith(f"{expected}locations/eu/publishers/")


def test_a_place_that_is_missing_or_no_name_is_told_with_its_setting() -> None:
    with pytest.raises(UsageError, match="needs a project") as caught:
        connect("vertex", environ={}, keyring=False)
    assert caught.value.path == "providers.vertex.project"
    assert "GOOGLE_CLOUD_PROJECT" in caught.value.hint
    with pytest.raises(UsageError, match="is not the name of a resource"):
        connect("azure", ProviderConfig(resource="me.evil.test/x"), environ={}, keyring=False)
    config = ProviderConfig(account="a1", gateway="team")
    assert connect("cloudflare", config, environ={}, keyring=False).endpoint.base_url == (
        "https://gateway.ai.cloudflare.com/v1/a1/team/compat"
    )


@pytest.mark.parametrize(
    ("name", "pasted", "hint"),
    [
        (
            "azure",
            "https://me.services.ai.azure.com/api/projects/team",
            "https://me.services.ai.azure.com/openai/v1",
        ),
        (
            "azure",
            "https://me.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-01-01-preview",
            "https://me.openai.azure.com/openai/v1",
        ),
        ("azure", "https://me.openai.azure.com/openai/responses?api-version=x", "/openai/v1"),
        ("azure", "https://me.services.ai.azure.com/anthropic/v1/messages", "azure-anthropic"),
        (
            "foundry",
            "https://me.services.ai.azure.com/anthropic/v1/messages",
            "https://me.services.ai.azure.com/anthropic",
        ),
        ("foundry", "https://me.services.ai.azure.com/api/projects/team", "/anthropic"),
    ],
)
def test_an_address_that_people_paste_by_mistake_is_recognised(name: str, pasted: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not the base URL") as caught:
        connect(name, ProviderConfig(base_url=pasted), environ={}, keyring=False)
    assert hint in caught.value.hint
    assert caught.value.path.endswith(".base_url")


def test_a_provider_that_is_like_an_unknown_one_is_told_which_is_meant() -> None:
    config = ProviderConfig(like="azure-opnai", resource="r")
    with pytest.raises(UsageError) as caught:
        connect("azure-eu", config, environ={}, keyring=False)
    assert caught.value.path == "providers.azure-eu.like"
    assert caught.value.hint == 'Did you mean "azure-openai"?'
    (problem,) = check_config("azure-eu", config)
    assert (problem.field, problem.hint) == ("providers.azure-eu.like", caught.value.hint)


def test_a_second_resource_is_like_the_first_and_has_its_own_key_and_origin() -> None:
    config = ProviderConfig(like="azure", resource="my-eu")
    environ = {"AZURE_OPENAI_API_KEY": "of-the-first", "AZURE_EU_API_KEY": "of-the-second"}
    provider = connect("azure-eu", config, environ=environ, keyring=False)
    assert provider.endpoint.base_url == "https://my-eu.openai.azure.com/openai/v1"
    assert provider.endpoint.headers() == {"api-key": "of-the-second"}
    assert provider.target("gpt-5.6").provider == "azure-eu"
    assert (
        connect("x", ProviderConfig(like="vertex", project="p"), environ={}, keyring=False)
        .target("m")
        .dialect
        == "gemini"
    )


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
