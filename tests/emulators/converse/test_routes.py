"""The emulated runtime over HTTP: keys, signatures, frames, counts; asked as boto3 asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import AWS_SECRETS, Emulator
from segue.emulators.in_process import ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served

botocore_session = pytest.importorskip("botocore.session")
Config = pytest.importorskip("botocore.config").Config
ClientError = pytest.importorskip("botocore.exceptions").ClientError
EventStreamBuffer = pytest.importorskip("botocore.eventstream").EventStreamBuffer

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PATH = f"/bedrock/model/{CLAUDE}/converse"
HELLO = {"messages": [{"role": "user", "content": [{"text": "Hello."}]}]}
((ACCESS_KEY, SECRET),) = AWS_SECRETS.items()
TOOLS = {
    "tools": [
        {
            "toolSpec": {
                "name": "read",
                "inputSchema": {"json": {"type": "object", "properties": {"path": {"type": "string"}}}},
            }
        }
    ]
}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def client(
    served: Served, *, access_key: str = ACCESS_KEY, secret: str = SECRET, region: str = "eu-central-1"
) -> Any:
    session = botocore_session.Session()
    session.set_credentials(access_key, secret)
    config = Config(retries={"total_max_attempts": 1}, region_name=region)
    return session.create_client("bedrock-runtime", endpoint_url=served.url("bedrock"), config=config)


def frames(data: bytes) -> list[tuple[Mapping[str, Any], Any]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, json.loads(message.payload)) for message in buffer]


@pytest.mark.rule("AWS-01")
def test_a_request_needs_a_key_or_a_signature() -> None:
    app = App(Emulator(keys={"good"}))
    without = ask_now(app, "POST", PATH, json=HELLO, headers={})
    assert (without.status, without.json()["message"]) == (403, "Missing Authentication Token")
    assert without.headers["x-amzn-errortype"].startswith("MissingAuthenticationTokenException:")
    assert ask_now(app, "POST", PATH, json=HELLO, headers={"authorization": "Bearer bad"}).status == 403
    assert ask_now(app, "POST", PATH, json=HELLO, headers={"authorization": "Bearer good"}).status == 200


@pytest.mark.rule("AWS-02", "BDR-10")
def test_what_botocore_signs_is_accepted_and_nothing_else(segue_emulator_server: Served) -> None:
    assert client(segue_emulator_server).converse(modelId=CLAUDE, **HELLO)["stopReason"] == "end_turn"
    for wrong in ({"secret": "another"}, {"access_key": "AKIDUNKNOWN"}):
        with pytest.raises(ClientError) as caught:
            client(segue_emulator_server, **wrong).converse(modelId=CLAUDE, **HELLO)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    for header in (
        "AWS4-HMAC-SHA256 nonsense",
        "AWS4-HMAC-SHA256 Credential=a/b/c/s3/aws4_request, SignedHeaders=host, Signature=" + "0" * 64,
    ):
        answer = ask_now(App(), "POST", PATH, json=HELLO, headers={"authorization": header})
        assert answer.status == 403


@pytest.mark.rule("BDR-09", "BDR-10", "BDR-17", "BDR-18")
def test_a_tool_turn_with_thinking_whole_and_streamed_as_boto3_reads_it(
    segue_emulator_server: Served,
) -> None:
    pieces = (Think("Let me see."), Say("I read."), Call("read", {"path": "a\nb"}))
    assert isinstance(segue_emulator_server.emulator.responder, ScriptedResponder)
    segue_emulator_server.emulator.responder.add(Reply(pieces=pieces), Reply(pieces=pieces))
    asked = {"modelId": CLAUDE, "toolConfig": TOOLS, "additionalModelRequestFields": THINKING, **HELLO}
    whole = client(segue_emulator_server).converse(**asked)
    content = whole["output"]["message"]["content"]
    streamed = list(client(segue_emulator_server).converse_stream(**asked)["stream"])
    assert [next(iter(event)) for event in streamed][-2:] == ["messageStop", "metadata"]
    assert streamed[-1]["metadata"]["usage"] == whole["usage"]
    said = "".join(
        event["contentBlockDelta"]["delta"].get("text", "")
        for event in streamed
        if "contentBlockDelta" in event
    )
    assert said == "I read."
    used = content[2]["toolUse"]
    follow_up = [
        *HELLO["messages"],
        whole["output"]["message"],
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": used["toolUseId"], "content": [{"text": "x"}]}}],
        },
    ]
    assert client(segue_emulator_server).converse(**{**asked, "messages": follow_up})["stopReason"]


@pytest.mark.rule("BDR-17", "BDR-13")
def test_what_stands_before_a_cache_point_is_counted_apart() -> None:
    app = App()
    point = {"cachePoint": {"type": "default"}}
    body = {**HELLO, "system": [{"text": "Be brief. " * 20}, point]}
    first = ask_now(app, "POST", PATH, json=body).json()["usage"]
    second = ask_now(app, "POST", PATH, json=body).json()["usage"]
    assert first["cacheReadInputTokens"] == 0 < first["cacheWriteInputTokens"]
    assert second["cacheReadInputTokens"] == first["cacheWriteInputTokens"]
    assert first["inputTokens"] == second["inputTokens"]
    assert first["cacheDetails"] == [{"ttl": "5m", "inputTokens": first["cacheWriteInputTokens"]}]


@pytest.mark.rule("BDR-19")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
def test_trouble_of_the_service_has_its_own_exceptions(
    status: int, kind: str, segue_emulator_server: Served
) -> None:
    from segue.emulators.faults import Fault

    segue_emulator_server.emulator.faults.append(Fault(status=status))
    with pytest.raises(ClientError) as caught:
        client(segue_emulator_server).converse(modelId=CLAUDE, **HELLO)
    assert caught.value.response["Error"]["Code"] == kind


@pytest.mark.rule("BDR-09")
def test_an_error_in_mid_stream_is_an_exception_frame() -> None:
    from segue.emulators.faults import Fault

    app = App()
    app.emulator.faults.append(Fault(kind="error_mid_stream", status=429))
    answer = ask_now(app, "POST", f"{PATH}-stream", json=HELLO)
    assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
    headers, payload = frames(answer.body)[-1]
    assert (headers[":message-type"], headers[":exception-type"]) == ("exception", "throttlingException")
    assert payload["message"]


@pytest.mark.rule("BDR-19")
def test_what_is_not_json_is_refused() -> None:
    answer = ask_now(App(), "POST", PATH, body=b"{")
    assert answer.status == 400
    assert answer.headers["x-amzn-errortype"].startswith("SerializationException:")


@pytest.mark.rule("AWS-09")
def test_tokens_are_counted_and_models_listed(segue_emulator_server: Served) -> None:
    counted = client(segue_emulator_server).count_tokens(modelId=CLAUDE, input={"converse": HELLO})
    assert counted["inputTokens"] > 0
    listed = ask_now(App(), "GET", "/bedrock/foundation-models").json()["modelSummaries"]
    assert "amazon.nova-lite-v1:0" in [model["modelId"] for model in listed]
    profiles = ask_now(App(), "GET", "/bedrock/inference-profiles").json()["inferenceProfileSummaries"]
    assert CLAUDE in [profile["inferenceProfileId"] for profile in profiles]
