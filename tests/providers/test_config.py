from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import UsageError
from segue.providers.capabilities import ConfigProblem
from segue.providers.config import ProviderConfig, read_provider_config
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.transports.transport import Timeouts

KEY = "nobody-may-see-me"


def problems_of(table: dict[str, Any], name: str = "openai") -> dict[str, ConfigProblem]:
    _, problems = read_provider_config(name, table)
    return {problem.field.removeprefix(f"providers.{name}."): problem for problem in problems}


@pytest.mark.requirement("Scenario: Configuration Validation", "Scenario: Provider Initialization")
def test_a_sound_configuration_is_read_and_has_no_problems() -> None:
    table = {
        "base_url": "https://proxy.test/v1",
        "api_key": KEY,
        "headers": {"x-team": "a"},
        "timeouts": {"connect": 3, "idle": 60.5},
        "model": "gpt-4.1",
        "embedding_model": "text-embedding-3-large",
        "dialect": "responses",
        "query": {"api-version": "preview"},
    }
    config, problems = read_provider_config("openai", table)
    assert problems == []
    assert config.api_key == Secret(KEY)
    assert config.timeouts == Timeouts(connect=3.0, idle=60.5)
    provider = connect("openai", config, environ={}, keyring=False)
    assert provider.validate_config() == []
    assert provider.endpoint.dialect.name == "openai_responses"
    assert provider.endpoint.url("/responses") == "https://proxy.test/v1/responses?api-version=preview"


@pytest.mark.requirement("Scenario: Configuration Validation")
def test_all_problems_are_told_at_once_each_with_its_remedy() -> None:
    found = problems_of(
        {
            "api_keyy": KEY,
            "base_url": "ftp://host",
            "model": 7,
            "dialect": "opena_chat",
            "timeouts": {"idle": -1, "conect": 3, "total": "long"},
            "headers": {"bad header": KEY, "x-two-lines": f"{KEY}\nx-more: 1"},
            "key_command": "print-key",
            "api_key_env": "KEY",
            "threads": 4,
        }
    )
    assert set(found) == {
        "api_keyy",
        "base_url",
        "model",
        "dialect",
        "timeouts.idle",
        "timeouts.conect",
        "timeouts.total",
        "headers.bad header",
        "headers.x-two-lines",
        "key_command",
        "threads",
    }
    assert found["api_keyy"].hint == 'Did you mean "api_key"?'
    assert found["timeouts.conect"].hint == 'Did you mean "timeouts.connect"?'
    assert found["base_url"].value == "ftp://host"
    assert "openai_chat" in found["dialect"].hint
    assert all(problem.message and problem.hint for problem in found.values())
    assert KEY not in str(found)


def test_a_key_of_the_wrong_type_is_told_without_showing_it() -> None:
    found = problems_of({"api_key": [KEY], "headers": KEY})
    assert {name: problem.value for name, problem in found.items()} == {"api_key": "***", "headers": "***"}
    assert KEY not in str(found)


@pytest.mark.requirement("Scenario: Configuration Validation")
def test_an_empty_key_is_a_problem() -> None:
    assert problems_of({"api_key": ""})["api_key"].message == "The key is empty."


@pytest.mark.requirement("Scenario: Provider Initialization", "Scenario: Configuration Validation")
def test_a_place_without_an_address_of_its_own_needs_one() -> None:
    assert "AZURE_OPENAI_ENDPOINT" in problems_of({}, "azure-openai")["resource"].hint
    with pytest.raises(UsageError) as caught:
        connect("azure-openai", environ={}, keyring=False)
    assert caught.value.code == "no_base_url"
    environ = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com", "AZURE_OPENAI_API_KEY": "k"}
    provider = connect("azure-openai", environ=environ, keyring=False)
    assert provider.validate_config() == []
    assert provider.endpoint.base_url == "https://x.openai.azure.com/openai/v1"


def test_a_name_that_nobody_knows_needs_an_address() -> None:
    assert "nobody" in problems_of({}, "nobody")["base_url"].message
    with pytest.raises(UsageError) as caught:
        connect("nobody", environ={}, keyring=False)
    assert caught.value.code == "unknown_provider"


@pytest.mark.parametrize(
    ("dialect", "header", "spoken"),
    [
        ("", "authorization", "openai_compatible"),
        ("anthropic", "x-api-key", "anthropic"),
        ("vllm", "authorization", "vllm"),
    ],
)
def test_a_server_of_ones_own_has_the_manners_of_its_dialect(dialect: str, header: str, spoken: str) -> None:
    config = ProviderConfig(base_url="http://10.0.0.7:8000/v1", dialect=dialect)
    provider = connect("my-server", config, environ={"MY_SERVER_API_KEY": "k"}, keyring=False)
    assert header in provider.endpoint.headers()
    assert provider.endpoint.dialect.name == spoken
    assert provider.validate_config() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from([*ProviderConfig.__struct_fields__, "nonsense"]) | st.text(max_size=8)


@given(st.dictionaries(keys, json_values, max_size=6), st.sampled_from(["openai", "ollama", "mine"]))
def test_whatever_stands_in_a_table_is_read_or_told(table: dict[str, Any], name: str) -> None:
    config, problems = read_provider_config(name, table)
    assert isinstance(config, ProviderConfig)
    told = {problem.field for problem in problems}
    unknown = {f"providers.{name}.{key}" for key in table if key not in ProviderConfig.__struct_fields__}
    assert unknown <= told


def test_a_key_given_as_a_text_becomes_a_secret_at_once() -> None:
    config = ProviderConfig(api_key=KEY)
    assert config.api_key == Secret(KEY)
    assert KEY not in repr(config)
    assert connect("openai", config, environ={}, keyring=False).validate_config() == []
    with pytest.raises(UsageError) as caught:
        ProviderConfig(api_key=123)  # type: ignore[arg-type]
    assert caught.value.code == "bad_key"
    assert "123" not in str(caught.value)


def test_a_provider_in_this_process_takes_settings_of_its_own_and_no_others() -> None:
    config, problems = read_provider_config("embedded", {"model": "smollm2", "threads": 2, "context": 2048})
    assert problems == []
    assert (config.model, config.threads, config.context) == ("smollm2", 2, 2048)
    found = problems_of({"base_url": "http://x", "api_key": KEY, "threads": 0, "thread": 1}, "embedded")
    assert set(found) == {"base_url", "api_key", "threads", "thread"}
    assert "in this process" in found["base_url"].message
    assert found["thread"].hint == 'Did you mean "threads"?'
    assert KEY not in str(found)
    assert set(problems_of({"model": "x"}, "scripted")) == {"model"}
    assert set(problems_of({"threads": 2, "context": 9}, "vllm")) == {"threads"}
    assert set(problems_of({"context": 0}, "vllm")) == {"context"}
