"""A configuration of the LiteLLM proxy becomes settings that pass their own check."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import yaml

from segue.config.layers import load_settings
from segue.config.model_names import reference_faults
from segue.config.schema import Config
from segue.emulators.pytest_plugin import segue_emulator_server
from segue.emulators.server import Served
from segue.errors import UsageError
from segue.gateway import gateway_app, in_process_transport
from segue.interop.litellm import translate
from segue.providers.config import read_provider_config
from segue.providers.factory import connect, key_of
from segue.providers.hosts.addresses import address_of, addresses

__all__ = ["segue_emulator_server"]

MASTER = {"Authorization": "Bearer sk-master"}
PROXY = """
model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY, rpm: 300, temperature: 0.2}
  - model_name: gpt-4o
    litellm_params: {model: azure/gpt-4o-eu, api_base: "https://eu.openai.azure.com", api_key: os.environ/AZURE_KEY, rpm: 100}
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-6, api_key: os.environ/ANTHROPIC_API_KEY}
  - model_name: local
    litellm_params: {model: openai/llama-3, api_base: "http://127.0.0.1:9000/v1", api_key: "sk-1234567890abcdef"}
  - model_name: other-local
    litellm_params: {model: openai/phi, api_base: "http://127.0.0.1:9001/v1"}
  - model_name: "openai/*"
    litellm_params: {model: "openai/*"}
  - model_name: cloud
    litellm_params: {model: bedrock/anthropic.claude-3, aws_region_name: eu-central-1}
  - model_name: fireworks
    litellm_params: {model: fireworks_ai/llama-v4, api_key: os.environ/FIREWORKS_KEY}
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 2
  redis_host: cache
litellm_settings:
  fallbacks: [{claude: [gpt-4o, local]}]
  drop_params: true
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  database_url: postgresql://x
"""


def test_models_routers_fallbacks_and_keys_are_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translation = translate(yaml.safe_load(PROXY))
    file = tmp_path / "config.toml"
    file.write_text(translation.toml)
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert reference_faults(settings) == []
    config = settings.config
    team = config.profiles["gpt-4o"]
    assert team.members == ["openai/gpt-4o", "azure-openai/gpt-4o-eu"]
    assert team.policy == "weighted"
    assert team.weights == {"openai/gpt-4o": 300.0, "azure-openai/gpt-4o-eu": 100.0}
    assert team.retry.attempts == 3
    fallback = config.profiles["claude"]
    assert fallback.policy == "failover"
    assert fallback.members == [
        "anthropic/claude-sonnet-4-6",
        "openai/gpt-4o",
        "azure-openai/gpt-4o-eu",
        "openai-compatible/llama-3",
    ]
    assert config.aliases["other-local"] == "openai-compatible-2/phi"
    assert config.providers["openai-compatible-2"]["base_url"] == "http://127.0.0.1:9001/v1"
    assert config.providers["openai"]["api_key_env"] == "OPENAI_API_KEY"
    assert config.aliases["fireworks"] == "fireworks/llama-v4"
    assert config.providers["fireworks"] == {"api_key_env": "FIREWORKS_KEY"}
    assert config.providers["bedrock"] == {"region": "eu-central-1"}
    assert config.options["openai/gpt-4o"].temperature == 0.2
    assert config.gateway.callers["admin"].key_env == "LITELLM_MASTER_KEY"
    assert config.gateway.callers["admin"].admin
    for place in ("bedrock", "redis_host", "database_url", "api_key", "aws_region_name", "rpm"):
        expected = place in ("redis_host", "database_url", "api_key", "rpm")
        assert any(place in line for line in translation.missing) is expected, place
    assert "sk-1234567890abcdef" not in translation.toml + "".join(translation.missing)


CLOUDS = """
model_list:
  - model_name: nova
    litellm_params: {model: "bedrock/us.amazon.nova-lite-v1:0", aws_region_name: us-east-1}
  - model_name: nova-eu
    litellm_params: {model: "bedrock/converse/eu.amazon.nova-lite-v1:0", aws_region_name: eu-central-1, aws_profile_name: work}
  - model_name: invoked
    litellm_params: {model: bedrock/invoke/us.anthropic.claude-sonnet-4-6, aws_region_name: us-east-1}
  - model_name: mantle
    litellm_params: {model: bedrock_mantle/openai.gpt-oss-120b, aws_region_name: us-east-1}
  - model_name: gemini
    litellm_params: {model: vertex_ai/gemini-3.5-flash, vertex_project: p, vertex_location: europe-west4}
  - model_name: claude
    litellm_params: {model: vertex_ai/claude-sonnet-4-6, vertex_project: p, vertex_location: os.environ/WHERE}
  - model_name: foundry
    litellm_params: {model: azure_ai/claude-sonnet-4-6, api_base: "https://r.services.ai.azure.com/anthropic"}
  - model_name: sonar
    litellm_params: {model: perplexity/perplexity/sonar}
  - model_name: nim
    litellm_params: {model: nvidia_nim/meta/llama-3.3-70b}
"""


def test_clouds_and_chat_servers_become_providers_that_know_their_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translation = translate(yaml.safe_load(CLOUDS))
    file = tmp_path / "config.toml"
    file.write_text(translation.toml)
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert reference_faults(settings) == []
    assert settings.config.aliases == {
        "nova": "bedrock/us.amazon.nova-lite-v1:0",
        "nova-eu": "bedrock-2/eu.amazon.nova-lite-v1:0",
        "invoked": "bedrock-invoke/us.anthropic.claude-sonnet-4-6",
        "mantle": "bedrock-mantle/openai.gpt-oss-120b",
        "gemini": "vertex/gemini-3.5-flash",
        "claude": "vertex-anthropic/claude-sonnet-4-6",
        "foundry": "azure-anthropic/claude-sonnet-4-6",
        "sonar": "perplexity/perplexity/sonar",
        "nim": "nvidia/meta/llama-3.3-70b",
    }
    addresses_of = {
        name: connect(name, read_provider_config(name, table)[0], environ={}, keyring=False).endpoint.base_url
        for name, table in settings.config.providers.items()
    }
    assert addresses_of["bedrock-2"] == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert addresses_of["bedrock-mantle"] == "https://bedrock-mantle.us-east-1.api.aws/anthropic"
    assert addresses_of["vertex"].startswith("https://europe-west4-aiplatform.googleapis.com/v1/projects/p/")
    assert addresses_of["azure-anthropic"] == "https://r.services.ai.azure.com/anthropic"
    assert addresses_of["perplexity"] == "https://api.perplexity.ai/v1"
    assert [line for line in translation.missing if "no match" in line] == []
    assert any("vertex_location" in line and "WHERE" in line for line in translation.missing)


@pytest.mark.parametrize("config", [None, [], "text", {}, {"model_list": 5}])
def test_what_is_no_configuration_of_litellm_is_refused(config: object) -> None:
    with pytest.raises(UsageError, match="model_list"):
        translate(config)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        5,
        {},
        {"model_name": 5},
        {"model_name": "x"},
        {"model_name": "x", "litellm_params": {"model": 5}},
    ],
)
def test_entries_that_are_no_models_are_reported(entry: object) -> None:
    assert translate({"model_list": [entry]}).missing


def _checked(config: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings that a configuration becomes, which their own check accepts."""
    file = tmp_path / "config.toml"
    file.write_text(translate(config).toml)
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert reference_faults(settings) == []
    for name, table in settings.config.providers.items():
        assert read_provider_config(name, table)[1] == [], (name, table)
    return settings.config


VENDORS = {
    "openai": ("openai/gpt-4o", "openai"),
    "anthropic": ("anthropic/claude-sonnet-4-6", "anthropic"),
    "gemini": ("gemini/gemini-2.5-pro", "gemini"),
    "mistral": ("mistral/mistral-large-latest", "mistral"),
    "moonshot": ("moonshot/kimi-k2", "kimi"),
    "xai": ("xai/grok-4", "xai"),
}
ENVIRON = {"api_key": "os.environ/TEAM_KEY"}
USUAL = dict[str, str]()
LITERAL, OTHER = {"api_key": "sk-literal-of-one-team"}, {"api_key": "sk-literal-of-another"}
CREDENTIAL = {"litellm_credential_name": "team"}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    "accounts",
    [
        [LITERAL, ENVIRON],
        [ENVIRON, LITERAL],
        [LITERAL, USUAL],
        [USUAL, LITERAL, OTHER, ENVIRON],
        [LITERAL, CREDENTIAL],
        [{**ENVIRON, "organization": "one"}, {**ENVIRON, "organization": "two"}],
    ],
    ids=str,
)
def test_no_two_accounts_become_one(
    vendor: str, accounts: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ours = VENDORS[vendor]
    entries = [
        {"model_name": f"team-{number}", "litellm_params": {"model": model, **account}}
        for number, account in enumerate(accounts)
    ]
    config = _checked({"model_list": [*entries, *entries]}, tmp_path, monkeypatch)
    routes = [config.aliases[f"team-{number}"] for number in range(len(accounts))]
    assert len(set(routes)) == len(accounts), "each account has an entry of its own"
    known = [config.providers[route.partition("/")[0]] for route in routes]
    keys = [(table["api_key_env"], table.get("organization")) for table in known]
    assert len(set(keys)) == len(accounts), "with its own key"
    secrets = {variable: f"sk-{variable}" for variable, _ in keys}
    usual = {
        name: "sk-of-somebody-else" for name in addresses().providers[ours].key_env if name not in secrets
    }
    for route in routes:
        name = route.partition("/")[0]
        table, _ = read_provider_config(name, config.providers[name])
        address = address_of(name, table)
        assert address is not None
        home = addresses().providers[ours]
        assert (address.auth, address.headers) == (home.auth, home.headers), "asked as the vendor wants it"
        assert (table.base_url or address.base_url) == home.base_url
        found = key_of(address, table, environ={**usual, **secrets}, keyring=False).find()
        assert found is not None
        assert found.secret.reveal() == secrets[table.api_key_env]
        without = key_of(address, table, environ=usual, keyring=False).find()
        assert without is None, "a missing key is missing, and nobody else pays"


def test_the_usual_variable_and_no_key_are_one_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        {"model_name": "a", "litellm_params": {"model": "openai/gpt-4o"}},
        {"model_name": "b", "litellm_params": {"model": "gpt-4o", "api_key": "os.environ/OPENAI_API_KEY"}},
    ]
    config = _checked({"model_list": entries}, tmp_path, monkeypatch)
    assert config.aliases == {"a": "openai/gpt-4o", "b": "openai/gpt-4o"}


def test_a_key_in_the_file_is_in_no_output_and_its_variable_is_named() -> None:
    entries = [{"model_name": "a", "litellm_params": {"model": "openai/gpt-4o", **LITERAL}}]
    translation = translate({"model_list": entries})
    assert "sk-literal" not in translation.toml + str(translation.missing)
    assert any("LITELLM_OPENAI_KEY" in line for line in translation.missing)


USUAL = {
    "one vendor with aliases": """
model_list:
  - {model_name: gpt-4o, litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}}
router_settings: {model_group_alias: {gpt-4: gpt-4o}}
""",
    "two regions, balanced, with rests and time limits": """
model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY, weight: 2, timeout: 20}
  - model_name: gpt-4o
    litellm_params: {model: anthropic/claude-sonnet-4-6, api_key: os.environ/ANTHROPIC_API_KEY, weight: 1}
router_settings: {routing_strategy: simple-shuffle, allowed_fails: 2, cooldown_time: 5, num_retries: 1, timeout: 60}
""",
    "fallbacks for all": """
model_list:
  - {model_name: gpt-4o, litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}}
  - {model_name: claude, litellm_params: {model: anthropic/claude-sonnet-4-6, api_key: os.environ/ANTHROPIC_API_KEY}}
litellm_settings: {default_fallbacks: [claude], request_timeout: 300}
""",
    "a pattern of names": """
model_list:
  - {model_name: "gpt-*", litellm_params: {model: anthropic/claude-sonnet-4-6, api_key: os.environ/ANTHROPIC_API_KEY}}
  - {model_name: "anthropic/*", litellm_params: {model: "anthropic/*", api_key: os.environ/ANTHROPIC_API_KEY}}
""",
    "an operator and options": """
model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY, temperature: 0.2, max_tokens: 50}
general_settings: {master_key: os.environ/LITELLM_MASTER_KEY}
""",
}
"""Five configurations of the usual kinds."""


@pytest.mark.parametrize("kind", USUAL)
def test_a_usual_configuration_is_served(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segue_emulator_server: Served
) -> None:
    file = (
        tmp_path / "segue.toml"
    )  # the name of a project's file, which needs no trust where SEGUE_CONFIG names it
    file.write_text(translate(yaml.safe_load(USUAL[kind])).toml)
    for name, value in {
        "SEGUE_CONFIG": file.name,
        "LITELLM_MASTER_KEY": "sk-master",
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": segue_emulator_server.url("openai") + "/v1",
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": segue_emulator_server.url("anthropic"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert reference_faults(load_settings()) == []
    name = "gpt-4" if "model_group_alias" in USUAL[kind] else "gpt-4o"
    with httpx.Client(
        transport=in_process_transport(gateway_app(file)), base_url="http://gateway", headers=MASTER
    ) as client:
        body = {"model": name, "messages": [{"role": "user", "content": "Hello"}]}
        reply = client.post("/v1/chat/completions", json=body)
        operator = client.get("/segue/v1/callers")
        stranger = client.get("/segue/v1/callers", headers={"Authorization": "Bearer sk-other"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"] == "You said: Hello"
    assert operator.status_code == 200
    assert stranger.status_code == (401 if "master_key" in USUAL[kind] else 200)
    assert [entry.verdict for entry in segue_emulator_server.emulator.log] == ["accepted"]
