"""The clouds' clients of the official SDKs against the emulators of Vertex and Azure, and what those refuse."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.clouds.azure_openai import FILTERED
from segue.emulators.in_process import ask_now
from segue.emulators.server import Served, serve

VERTEX = "/vertex/v1/projects/p/locations/global/publishers"
GEMINI = f"{VERTEX}/google/models/gemini-3.5-flash"
CLAUDE = f"{VERTEX}/anthropic/models/claude-sonnet-4-6"
TOKEN = {"authorization": "Bearer ya29.x", "content-type": "application/json"}
HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
ASKED = {"max_tokens": 100, "messages": [{"role": "user", "content": "Hello."}]}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve() as running:
        yield running


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason="the SDK is not installed")


def refusal(path: str, body: object, headers: dict[str, str] = TOKEN) -> tuple[int, str | None]:
    app = App()
    answer = ask_now(app, "POST", path, json=body, headers=headers)
    return answer.status, app.emulator.log[-1].rule


@pytest.mark.rule("VTX-04", "VTX-08")
def test_google_genai_for_vertex_is_accepted(served: Served) -> None:
    genai, types = imported("google.genai"), imported("google.genai.types")
    credentials = imported("google.oauth2.credentials").Credentials("ya29.x")
    options = types.HttpOptions(base_url=served.url("vertex"))
    client = genai.Client(
        vertexai=True, project="p", location="eu", credentials=credentials, http_options=options
    )
    reply = client.models.generate_content(model="gemini-3.5-flash", contents="Hello.")
    assert reply.text == "You said: Hello."
    chunks = client.models.generate_content_stream(model="gemini-3.5-flash", contents="Hello.")
    assert "".join(chunk.text or "" for chunk in chunks) == "You said: Hello."
    assert client.models.count_tokens(model="gemini-3.5-flash", contents="Hello.").total_tokens > 0
    client.close()


@pytest.mark.rule("VTX-05", "VTX-08")
def test_anthropics_client_for_vertex_is_accepted(served: Served) -> None:
    anthropic = imported("anthropic")
    client = anthropic.AnthropicVertex(
        project_id="p",
        region="eu",
        access_token=TOKEN["authorization"],
        base_url=f"{served.url('vertex')}/v1",
        max_retries=0,
    )
    asked: dict[str, Any] = {
        "model": "claude-sonnet-4-6",
        "messages": [{"role": "user", "content": "Hello."}],
    }
    assert client.messages.create(max_tokens=50, **asked).content[-1].text == "You said: Hello."
    with client.messages.stream(max_tokens=50, **asked) as stream:
        assert stream.get_final_text() == "You said: Hello."
    assert client.messages.count_tokens(**asked).input_tokens > 0
    client.close()


@pytest.mark.rule("AZR-01", "AZR-06")
def test_the_clients_for_azure_are_accepted(served: Served) -> None:
    openai, anthropic = imported("openai"), imported("anthropic")
    url = served.url("azure")
    older = openai.AzureOpenAI(
        azure_endpoint=url, api_key="k", api_version="2025-04-01-preview", max_retries=0
    )
    asked: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hello."}]}
    assert older.chat.completions.create(**asked).choices[0].message.content == "You said: Hello."
    newer = openai.OpenAI(base_url=f"{url}/openai/v1/", api_key="k", max_retries=0)
    chunks = list(newer.chat.completions.create(**asked, stream=True))
    assert chunks[0].choices == []
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == "You said: Hello."
    assert newer.responses.create(model="gpt-5.5", input="Hello.").output_text == "You said: Hello."
    claude = anthropic.AnthropicFoundry(base_url=f"{url}/anthropic", api_key="k", max_retries=0)
    reply = claude.messages.create(
        model="claude-sonnet-4-6", max_tokens=50, messages=[{"role": "user", "content": "Hello."}]
    )
    assert reply.content[-1].text == "You said: Hello."
    for client in (older, newer, claude):
        client.close()


@pytest.mark.rule("VTX-08")
def test_vertex_takes_a_key_in_express_mode_only() -> None:
    key = {"x-goog-api-key": "k", "content-type": "application/json"}
    assert refusal(f"{GEMINI}:generateContent", HELLO, key) == (401, "VTX-08")
    assert (
        refusal("/vertex/v1/publishers/google/models/gemini-3.5-flash:generateContent", HELLO, key)[0] == 200
    )
    assert refusal(f"{CLAUDE}:rawPredict", {**ASKED, "anthropic_version": "vertex-2023-10-16"}, key) == (
        401,
        "VTX-08",
    )


@pytest.mark.rule("GEM-16", "VTX-04")
def test_vertex_refuses_ids_and_fields_of_the_developer_api() -> None:
    call = {"functionCall": {"id": "c1", "name": "f", "args": {}}}
    contents = [*HELLO["contents"], {"role": "model", "parts": [call]}]
    answer = {"functionResponse": {"id": "c1", "name": "f", "response": {}}}
    body = {"contents": [*contents, {"role": "user", "parts": [answer]}]}
    assert refusal(f"{GEMINI}:generateContent", body) == (400, "GEM-16")
    assert refusal(f"{GEMINI}:generateContent", {**HELLO, "store": True}) == (400, "VTX-04")
    assert refusal(f"{GEMINI}:countTokens", {"generateContentRequest": HELLO}) == (400, "VTX-04")


@pytest.mark.rule("VTX-05")
@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("rawPredict", ASKED),
        ("rawPredict", {**ASKED, "anthropic_version": "2023-06-01"}),
        ("rawPredict", {**ASKED, "anthropic_version": "vertex-2023-10-16", "model": "claude-sonnet-4-6"}),
        ("rawPredict", {**ASKED, "anthropic_version": "vertex-2023-10-16", "stream": True}),
        ("streamRawPredict", {**ASKED, "anthropic_version": "vertex-2023-10-16"}),
    ],
)
def test_vertex_wants_claude_in_its_own_envelope(method: str, body: dict[str, Any]) -> None:
    assert refusal(f"{CLAUDE}:{method}", body) == (400, "VTX-05")


@pytest.mark.rule("VTX-06")
def test_vertex_refuses_a_beta_and_a_field_that_it_does_not_have_yet() -> None:
    app = App()
    app.emulator.withheld = frozenset({"effort-2025-11-24", "output_config"})
    body = {**ASKED, "anthropic_version": "vertex-2023-10-16"}
    beta = {**TOKEN, "anthropic-beta": "effort-2025-11-24"}
    answer = ask_now(app, "POST", f"{CLAUDE}:rawPredict", json=body, headers=beta)
    assert "Unexpected value(s) `effort-2025-11-24` for the `anthropic-beta` header" in answer.body.decode()
    answer = ask_now(
        app, "POST", f"{CLAUDE}:rawPredict", json={**body, "output_config": {"effort": "low"}}, headers=TOKEN
    )
    assert answer.json()["error"]["message"] == "output_config: Extra inputs are not permitted"


@pytest.mark.rule("AZR-01")
@pytest.mark.parametrize(
    ("path", "headers", "model", "status"),
    [
        ("/openai/v1/chat/completions", {}, "gpt-4.1", 401),
        ("/openai/v1/chat/completions", {"api-key": "k"}, "gpt-4.1", 200),
        ("/openai/v1/chat/completions", {"authorization": "Bearer t"}, "gpt-4.1", 200),
        ("/openai/v1/chat/completions", {"api-key": "k"}, "no-such-deployment", 404),
        ("/openai/v1/chat/completions?api-version=2024-10-21", {"api-key": "k"}, "gpt-4.1", 400),
        ("/openai/deployments/gpt-4.1/chat/completions", {"api-key": "k"}, "gpt-4.1", 404),
        ("/openai/deployments/gpt-4.1/chat/completions?api-version=2024-10-21", {"api-key": "k"}, "any", 200),
        ("/api/projects/team/chat/completions", {"api-key": "k"}, "gpt-4.1", 404),
    ],
)
def test_azure_wants_its_own_paths_versions_and_deployments(
    path: str, headers: dict[str, str], model: str, status: int
) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello."}]}
    answer = ask_now(App(), "POST", f"/azure{path}", json=body, headers=headers)
    assert answer.status == status, answer.body


@pytest.mark.rule("AZR-05")
def test_azure_filters_a_prompt() -> None:
    body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": FILTERED}]}
    answer = ask_now(App(), "POST", "/azure/openai/v1/chat/completions", json=body, headers={"api-key": "k"})
    assert answer.status == 400
    assert answer.json()["error"]["code"] == "content_filter"


@pytest.mark.parametrize(
    ("url", "wire"),
    [
        ("/azure/anthropic/v1/models", "anthropic"),
        ("/azure/openai/v1/nothing", "openai"),
        ("/vertex/v1/projects/p/locations/l/publishers/anthropic/nothing", "anthropic"),
        ("/vertex/v1/projects/p/locations/l/publishers/google/nothing", "gemini"),
    ],
)
def test_a_path_that_a_cloud_does_not_have_is_refused_in_the_words_of_its_wire(url: str, wire: str) -> None:
    answer = ask_now(App(), "GET", url)
    assert answer.status == 404
    told = answer.json()
    marks = {
        "anthropic": told.get("type") == "error",
        "openai": "param" in told["error"],
        "gemini": "status" in told["error"],
    }
    assert [name for name, seen in marks.items() if seen] == [wire]


INVOKED = "/bedrock/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"
ENVELOPE = {**ASKED, "anthropic_version": "bedrock-2023-05-31"}


@pytest.mark.rule("AWS-03", "AWS-04")
@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (ENVELOPE, None),
        (ASKED, "AWS-03"),
        ({**ASKED, "anthropic_version": "2026-10-21"}, "AWS-03"),
        ({**ENVELOPE, "model": "claude-sonnet-4-5"}, "AWS-04"),
        ({**ENVELOPE, "stream": True}, "AWS-04"),
        ({**ENVELOPE, "anthropic_beta": "context-1m-2025-08-07"}, "AWS-04"),
        ({**ENVELOPE, "anthropic_beta": ["context-1m-2025-08-07"]}, None),
    ],
)
def test_invoke_model_wants_claude_in_its_own_envelope(body: dict[str, Any], rule: str | None) -> None:
    assert refusal(f"{INVOKED}/invoke", body) == (400 if rule else 200, rule)


@pytest.mark.rule("AWS-03")
def test_the_newest_version_is_for_newer_models() -> None:
    body = {**ASKED, "anthropic_version": "2026-10-21"}
    assert refusal("/bedrock/model/global.anthropic.claude-opus-4-8/invoke", body) == (200, None)


@pytest.mark.rule("AWS-05", "AWS-06")
@pytest.mark.parametrize(
    ("path", "body", "rule"),
    [
        ("/bedrock/anthropic/v1/messages", {**ASKED, "model": "us.anthropic.claude-sonnet-4-5"}, "AWS-06"),
        ("/bedrock/anthropic/v1/messages", {**ASKED, "model": "us.anthropic.claude-opus-4-7"}, None),
        (
            "/bedrock-mantle/anthropic/v1/messages",
            {**ASKED, "model": "us.anthropic.claude-opus-4-7"},
            "AWS-05",
        ),
        ("/bedrock/openai/v1/responses", {"input": "Hi", "model": "openai.gpt-oss-120b-1:0"}, "AWS-06"),
        ("/bedrock/openai/v1/responses", {"input": "Hi", "model": "openai.gpt-5.5"}, None),
        (
            "/bedrock/openai/v1/responses",
            {"input": "Hi", "model": "openai.gpt-5.5", "background": True},
            "AWS-06",
        ),
        (
            "/bedrock/openai/v1/responses",
            {"input": "Hi", "model": "openai.gpt-5.5", "tools": [{"type": "web_search"}]},
            "AWS-06",
        ),
        ("/bedrock-mantle/v1/responses", {"input": "Hi", "model": "openai.gpt-5.5"}, "AWS-06"),
        ("/bedrock-mantle/openai/v1/responses", {"input": "Hi", "model": "openai.gpt-5.5"}, None),
        ("/bedrock-mantle/v1/responses", {"input": "Hi", "model": "openai.gpt-oss-120b"}, None),
    ],
)
def test_each_route_of_aws_serves_its_own_models(path: str, body: dict[str, Any], rule: str | None) -> None:
    headers = {**TOKEN, "anthropic-version": "2023-06-01"}
    status, broken = refusal(path, body, headers)
    assert (status == 200, broken) == (rule is None, rule)


@pytest.mark.rule("AWS-02")
def test_claude_platform_on_aws_wants_a_workspace() -> None:
    body = {**ASKED, "model": "claude-sonnet-4-6"}
    headers = {**TOKEN, "anthropic-version": "2023-06-01"}
    assert refusal("/claude-aws/v1/messages", body, headers) == (400, "AWS-02")
    named = {**headers, "anthropic-workspace-id": "w"}
    assert refusal("/claude-aws/v1/messages", body, named) == (200, None)


@pytest.mark.rule("VTX-09")
def test_each_generation_of_vectors_has_its_method() -> None:
    first, second = (
        f"{VERTEX}/google/models/gemini-embedding-001",
        f"{VERTEX}/google/models/gemini-embedding-2",
    )
    one, content = {"content": "a"}, {"content": {"parts": [{"text": "a"}]}}
    assert refusal(f"{first}:predict", {"instances": [one]}) == (200, None)
    assert refusal(f"{second}:embedContent", content) == (200, None)
    assert refusal(f"{first}:predict", {"instances": [one, one]}) == (400, "VTX-09")
    assert refusal(f"{first}:embedContent", content) == (400, "VTX-09")
    assert refusal(f"{second}:predict", {"instances": [one]}) == (400, "VTX-09")
