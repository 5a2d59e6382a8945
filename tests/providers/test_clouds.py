"""Providers at Google Cloud and Azure, against the emulators over real HTTP: tokens, envelopes, refusals, names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from providers.credentials.test_google import GIVEN, gives, service_account
from providers.credentials.token_servers import token_server
from segue.cli.model_choice import default_model_of
from segue.config.schema import Config
from segue.conversation.events import Failed, Finished
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.usage import Usage
from segue.emulators.clouds.azure_openai import FILTERED
from segue.emulators.server import Served
from segue.errors import ContentPolicyError, CredentialsError, UsageError
from segue.providers.adapter import ChatRequest, StreamEvent
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses
from segue.providers.models.prices import PriceBook
from segue.providers.provider import Provider
from segue.providers.registry import default_registry
from segue.verify.verification import Verification
from strategies.provider_places import CLOUDS

HELLO = Conversation().append(user("Hello."))


def at(served: Served, name: str, **settings: Any) -> Provider:
    cloud, path = CLOUDS[name]
    config = ProviderConfig(base_url=served.url(cloud) + path, **{"api_key": "sk-emulated", **settings})
    return connect(name, config, environ={}, keyring=False)


def talk(provider: Provider, request: ChatRequest) -> list[StreamEvent]:
    async def main() -> list[StreamEvent]:
        return [event async for event in provider.chat_stream(request)]

    return asyncio.run(main())


def test_the_credentials_of_google_reach_vertex_as_a_token_with_who_pays(
    segue_emulator_server: Served, tmp_path: Path
) -> None:
    segue_emulator_server.emulator.keys = frozenset({GIVEN})
    with token_server(gives) as google:
        file = tmp_path / "sa.json"
        file.write_text(json.dumps(service_account(f"{google.url}/token")))
        environ = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
            "GOOGLE_VERTEX_BASE_URL": segue_emulator_server.url("vertex"),
            "GOOGLE_CLOUD_QUOTA_PROJECT": "who-pays",
        }
        registry = default_registry(environ=environ, keyring=False)
        assert registry.is_configured("vertex"), "a service account names its project"
        provider = registry.get("vertex")
        assert isinstance(provider, Provider)
        assert provider.validate_config() == []
        assert google.asked == [], "what is configured is told without a request"
        for _ in range(2):
            events = talk(provider, ChatRequest(model="gemini-3.5-flash", conversation=HELLO))
            assert isinstance(events[-1], Finished), events[-1]
        assert len(google.asked) == 1
    assert provider.endpoint.headers()["x-goog-user-project"] == "who-pays"
    assert "/projects/my-project/locations/global/" in segue_emulator_server.emulator.log[-1].path


def test_without_credentials_it_is_said_what_to_do(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "GOOGLE_CLOUD_PROJECT": "p", "AZURE_RESOURCE_NAME": "me"}
    registry = default_registry(environ=environ, keyring=False)
    for name, words in (("vertex", "gcloud auth application-default login"), ("azure-openai", "az login")):
        assert not registry.is_configured(name)
        provider = registry.get(name)
        assert isinstance(provider, Provider)
        (problem,) = provider.validate_config()
        assert words in problem.hint
        assert words in asyncio.run(provider.health()).advice
        (failed,) = talk(provider, ChatRequest(model="any", conversation=HELLO))
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, CredentialsError)
        assert failed.error.code == "missing_key"


@pytest.mark.parametrize(
    ("name", "model"), [("vertex", "gemini-3.5-flash"), ("vertex-anthropic", "claude-sonnet-4-6")]
)
def test_models_and_tokens_are_asked_for_in_vertexs_own_way(
    segue_emulator_server: Served, name: str, model: str
) -> None:
    able = at(segue_emulator_server, name).capabilities
    assert able.list_models is not None
    assert able.count_tokens is not None
    assert (able.embed is None) is (name == "vertex-anthropic")
    lists, counts = able.list_models, able.count_tokens

    async def main() -> None:
        assert model in [info.id for info in await lists()]
        assert await counts(ChatRequest(model=model, conversation=HELLO)) > 0

    asyncio.run(main())
    assert [entry.verdict for entry in segue_emulator_server.emulator.log] == ["accepted"] * 2


def test_a_cloud_that_lists_no_models_has_those_of_the_catalog(segue_emulator_server: Served) -> None:
    able = at(segue_emulator_server, "azure-anthropic").capabilities
    assert able.list_models is not None
    lists = able.list_models

    async def main() -> None:
        listed = await lists()
        assert "claude-opus-5-5" in [info.id for info in listed]
        assert all(info.input_price for info in listed)

    asyncio.run(main())
    assert list(segue_emulator_server.emulator.log) == []


@pytest.mark.parametrize(
    ("name", "model"),
    [("vertex", "gemini-3.5-flash"), ("vertex-anthropic", "claude-sonnet-4-6"), ("azure-openai", "gpt-4.1")],
)
def test_a_cloud_is_verified_against_the_emulator_of_that_cloud(
    segue_emulator_server: Served, name: str, model: str
) -> None:
    report = asyncio.run(Verification(at(segue_emulator_server, name), model).run())
    assert [one.provider.verdict for one in report.results] == ["accepted"] * len(report.results)
    assert [one.emulator.verdict for one in report.results] == ["accepted"] * len(report.results)


# Betas (VTX-06)


@pytest.mark.parametrize("name", ["vertex-anthropic", "azure-anthropic"])
@pytest.mark.parametrize("refused", ["beta", "field"])
def test_a_beta_and_its_field_are_dropped_together_after_a_refusal_and_not_sent_again(
    segue_emulator_server: Served, name: str, refused: str
) -> None:
    emulator = segue_emulator_server.emulator
    emulator.withheld = frozenset({"effort-2025-11-24"} if refused == "beta" else {"output_config"})
    provider = at(segue_emulator_server, name)
    request = ChatRequest(
        model="claude-opus-4-6",
        conversation=HELLO,
        options=Options(extra={"output_config": {"effort": "low"}}),
        headers={"anthropic-beta": "effort-2025-11-24,interleaved-thinking-2025-05-14"},
    )
    assert isinstance(talk(provider, request)[-1], Finished)
    assert [entry.verdict for entry in emulator.log] == ["refused", "accepted"]
    assert "output_config" not in emulator.log[-1].body
    events = talk(provider, request)
    assert isinstance(events[-1], Finished)
    assert [entry.verdict for entry in emulator.log] == ["refused", "accepted", "accepted"]
    sent = provider.preview(request)
    assert [repair.path for repair in sent.repairs if repair.kind == "option_not_sent"] == ["output_config"]


def test_a_refusal_that_names_nothing_in_the_request_ends_it(segue_emulator_server: Served) -> None:
    emulator = segue_emulator_server.emulator
    provider = at(segue_emulator_server, "vertex-anthropic")
    events = talk(provider, ChatRequest(model="no-such-model", conversation=HELLO))
    assert isinstance(events[-1], Failed)
    assert len(emulator.log) == 1


def test_a_host_that_refuses_what_segue_adds_is_not_asked_for_ever(segue_emulator_server: Served) -> None:
    emulator = segue_emulator_server.emulator
    emulator.withheld = frozenset({"anthropic_version"})
    events = talk(
        at(segue_emulator_server, "vertex-anthropic"),
        ChatRequest(model="claude-sonnet-4-6", conversation=HELLO),
    )
    assert isinstance(events[-1], Failed)
    assert len(emulator.log) == 2


def test_a_client_of_anthropic_does_not_pay_with_its_own_project(segue_emulator_server: Served) -> None:
    provider = at(segue_emulator_server, "vertex-anthropic")
    headers = {"x-goog-user-project": "of-the-client", "anthropic-version": "2023-06-01"}
    request = ChatRequest(model="claude-sonnet-4-6", conversation=HELLO, headers=headers)
    assert isinstance(talk(provider, request)[-1], Finished)
    body = segue_emulator_server.emulator.log[-1].body
    assert body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in body


# Azure


def test_the_card_and_the_wire_of_a_deployment_are_those_of_the_model_behind_it(
    segue_emulator_server: Served,
) -> None:
    emulator = segue_emulator_server.emulator
    emulator.memory("azure")["deployments"] = {"our-best": "gpt-5.6", "our-other": "gpt-4.1"}
    behind = {"our-best": "gpt-5.6", "our-other": "gpt-4.1"}
    provider = at(segue_emulator_server, "azure-openai", model_of=behind)
    for name, path in (("our-best", "/openai/v1/responses"), ("our-other", "/openai/v1/chat/completions")):
        assert isinstance(talk(provider, ChatRequest(model=name, conversation=HELLO))[-1], Finished)
        assert emulator.log[-1].path == path
        assert emulator.log[-1].body["model"] == name
    assert provider.card("our-best").context == provider.card("gpt-5.6").context
    blind = at(segue_emulator_server, "azure-openai")
    assert blind.card("our-best") != provider.card("our-best")


def test_a_deployment_costs_what_the_model_behind_it_costs() -> None:
    configs = {"azure-openai": ProviderConfig(resource="me", model_of={"our-best": "gpt-4.1"})}
    registry = default_registry(configs, environ={}, keyring=False)
    used = Usage(input_tokens=1_000_000, output_tokens=0)
    assert registry.prices.cost_of(used, "azure-openai", "our-best") == PriceBook().cost_of(
        used, "azure-openai", "gpt-4.1"
    )
    assert registry.prices.cost_of(used, "azure-openai", "our-best")


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5.5"])
def test_a_filtered_prompt_is_an_error_that_is_not_tried_again(
    segue_emulator_server: Served, model: str
) -> None:
    provider = at(segue_emulator_server, "azure-openai")
    request = ChatRequest(model=model, conversation=Conversation().append(user(FILTERED)))
    (_, failed) = talk(provider, request)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, ContentPolicyError)
    assert failed.error.remedy not in ("wait", "log_in")
    assert "content management policy" in failed.error.message


# Models that nobody named


@pytest.mark.parametrize("name", ["xai", "cohere", "perplexity", "cerebras"])
def test_the_usual_model_of_a_provider_is_not_that_of_the_wires_home(name: str) -> None:
    provider = connect(name, environ={}, keyring=False)
    meant = provider.preview(ChatRequest(model="", conversation=HELLO)).origin.model
    assert meant == addresses().providers[name].model
    assert default_model_of(name, Config()) == meant


def test_the_encrypted_reasoning_of_xai_is_asked_for() -> None:
    sent = connect("xai", environ={}, keyring=False).preview(ChatRequest(model="grok-4", conversation=HELLO))
    body = json.loads(sent.body)
    assert sent.url == "https://api.x.ai/v1/responses"
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["store"] is False


# What a host refuses


@pytest.mark.parametrize(
    ("name", "options", "sent", "dropped"),
    [
        ("cerebras", {"parallel_calls": False}, set(), {"parallel_tool_calls"}),
        ("cohere", {}, set(), {"tool_choice"}),
        ("cohere", {"tool_choice": "required"}, {"tool_choice"}, set()),
        ("fireworks", {"extra": {"strange": 1, "top_k": 4}}, {"top_k"}, {"strange"}),
        ("perplexity", {"parallel_calls": False}, {"tools"}, {"parallel_tool_calls", "store"}),
        ("sambanova", {"extra": {"logit_bias": {}}, "temperature": 0.5}, {"temperature"}, {"logit_bias"}),
    ],
)
def test_what_a_server_of_another_ones_wire_refuses_is_not_sent_and_said(
    name: str, options: dict[str, Any], sent: set[str], dropped: set[str]
) -> None:
    from laws.test_dialect_laws import TOOLS

    provider = connect(name, environ={}, keyring=False)
    request = ChatRequest(model="m", conversation=HELLO, tools=TOOLS, options=Options(**options))
    planned = provider.preview(request)
    body = json.loads(planned.body)
    assert sent <= set(body)
    assert not dropped & set(body)
    told = {repair.path.removeprefix("options.") for repair in planned.repairs}
    assert (dropped - {"tools", "tool_choice"}) <= told | {"tool_choice"}


# Vectors at Vertex


@pytest.mark.parametrize("model", ["", "gemini-embedding-001", "gemini-embedding-2"])
def test_vertex_makes_vectors_by_both_of_its_methods(segue_emulator_server: Served, model: str) -> None:
    able = at(segue_emulator_server, "vertex").capabilities
    assert able.embed is not None
    assert able.embedding_model == "gemini-embedding-001"
    counted: list[int] = []
    vectors = asyncio.run(able.embed(["one", "two", "three"], model=model, on_counted=counted.append))
    assert [len(vector) for vector in vectors] == [3072] * 3
    assert len(asyncio.run(able.embed(["one"], model=model, dimensions=256))[0]) == 256
    log = segue_emulator_server.emulator.log
    assert [entry.rule for entry in log if entry.rule] == []
    method = "embedContent" if model == "gemini-embedding-2" else "predict"
    assert {entry.path.rpartition(":")[2] for entry in log} == {method}
    assert bool(counted) is (method == "predict")


# Addresses as people write them


@pytest.mark.parametrize("name", ["vertex", "vertex-anthropic"])
@pytest.mark.parametrize("written", ["https://proxy.test", "https://proxy.test/v1", "https://proxy.test/v1/"])
def test_a_base_url_of_vertex_in_settings_is_completed(name: str, written: str) -> None:
    config = ProviderConfig(base_url=written, project="p", location="us")
    publisher = "google" if name == "vertex" else "anthropic"
    base_url = connect(name, config, environ={}, keyring=False).endpoint.base_url
    assert base_url == f"https://proxy.test/v1/projects/p/locations/us/publishers/{publisher}"


def test_a_complete_base_url_of_vertex_stays_as_it_is() -> None:
    express = "https://aiplatform.googleapis.com/v1/publishers/google"
    config = ProviderConfig(base_url=express)
    assert connect("vertex", config, environ={}, keyring=False).endpoint.base_url == express
    with pytest.raises(UsageError) as caught:
        connect("vertex", ProviderConfig(base_url="https://proxy.test/v1"), environ={}, keyring=False)
    assert caught.value.path == "providers.vertex.project"


def test_a_second_resource_of_azure_is_named_and_never_the_one_of_the_environment() -> None:
    """AZR-04: it would be the same origin under another name, with another key."""
    environ = {"AZURE_RESOURCE_NAME": "first"}
    for like in ("azure", "foundry"):
        with pytest.raises(UsageError) as caught:
            connect("second", ProviderConfig(like=like), environ=environ, keyring=False)
        assert caught.value.path == "providers.second.resource"
        assert caught.value.hint == "Set providers.second.resource."
    named = connect("second", ProviderConfig(like="azure", resource="other"), environ=environ, keyring=False)
    assert named.endpoint.base_url == "https://other.openai.azure.com/openai/v1"
    usual = connect("azure", environ=environ, keyring=False)
    assert usual.endpoint.base_url == "https://first.openai.azure.com/openai/v1"


# What is known from where


def test_every_cloud_and_every_server_that_nobody_tried_says_so() -> None:
    known = addresses().providers
    silent = [
        name
        for name, address in known.items()
        if (address.service or address.token or address.form.refuses or address.form.takes)
        and not address.documented
    ]
    assert silent == ["xai"]  # its refusals are recorded
    assert {name for name, address in known.items() if address.unconfirmed} == {
        "fireworks",
        "cohere",
        "perplexity",
    }


def test_perplexity_is_asked_in_responses() -> None:
    sent = connect("perplexity", environ={}, keyring=False).preview(ChatRequest(model="", conversation=HELLO))
    assert sent.url == "https://api.perplexity.ai/v1/responses"
    assert json.loads(sent.body)["model"] == "perplexity/sonar"
