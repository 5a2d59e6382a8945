"""Amazon Bedrock over real HTTP: keys and signatures, regions, the wire by the model, and credentials as AWS's tools find them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec import structs

from segue.conversation.blocks import Reasoning, ToolCall, ToolResult
from segue.conversation.events import Failed, Finished, TextDelta
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.dialects.streams.amazon_event_stream import event_frame, exception_frame
from segue.emulators.emulator import AWS_SECRETS
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served
from segue.errors import (
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProtocolError,
    RateLimitError,
    UsageError,
)
from segue.providers.adapter import ChatRequest, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.credentials.aws import AwsAccess, region_of
from segue.providers.factory import connect, key_of
from segue.providers.hosts.addresses import address_of
from segue.providers.models.prices import cost_of
from segue.providers.provider import Provider
from segue.providers.registry import default_registry
from segue.transports.http import DEFAULT_TRANSPORT
from segue.transports.transport import WireRequest, WireResponse
from strategies.endpoints import Said

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
((ACCESS_KEY, SECRET),) = AWS_SECRETS.items()
SIGNING = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
BEARER = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-0123456789"}


def provider(served: Served, environ: Mapping[str, str], **fields: Any) -> Provider:
    config = ProviderConfig(base_url=served.url("bedrock"), region="eu-central-1", **fields)
    return connect("bedrock", config, environ=environ, keyring=False)


def events(at: Provider, **fields: Any) -> list[Any]:
    async def main() -> list[Any]:
        request = ChatRequest(
            **{"model": CLAUDE, "conversation": Conversation().append(user("Hello.")), **fields}
        )
        return [event async for event in at.chat_stream(request)]

    return asyncio.run(main())


@pytest.mark.parametrize("environ", [SIGNING, BEARER], ids=["signed", "key"])
def test_a_model_answers_whoever_signs_or_has_a_key(
    environ: Mapping[str, str], segue_emulator_server: Served
) -> None:
    received = events(provider(segue_emulator_server, environ))
    assert any(isinstance(event, TextDelta) for event in received)
    assert isinstance(received[-1], Finished)


def test_the_key_wins_over_credentials(segue_emulator_server: Served) -> None:
    wrong = {**SIGNING, "AWS_SECRET_ACCESS_KEY": "wrong"}
    assert isinstance(events(provider(segue_emulator_server, wrong))[-1], Failed)
    assert isinstance(events(provider(segue_emulator_server, {**wrong, **BEARER}))[-1], Finished)


def test_a_refused_signature_is_an_error_of_credentials_without_the_secret(
    segue_emulator_server: Served,
) -> None:
    (*_, last) = events(
        provider(segue_emulator_server, {**SIGNING, "AWS_SECRET_ACCESS_KEY": "another-secret-0123"})
    )
    assert isinstance(last, Failed)
    assert isinstance(last.error, CredentialsError)
    assert "another-secret-0123" not in str(last.error)


def test_what_aws_repeats_of_a_signed_request_is_not_in_the_error(stand_in: str) -> None:
    """AWS tells what should have been signed when a signature is wrong: all headers, the token of the session among them."""
    token = "token-of-a-session-that-nobody-may-see"  # noqa: S105
    StandIn.answers = {
        "converse": {"message": f"The Canonical String should have been 'x-amz-security-token:{token}'"}
    }
    StandIn.status = 403
    config = ProviderConfig(base_url=stand_in, region="us-east-1")
    at = connect("bedrock", config, environ={**SIGNING, "AWS_SESSION_TOKEN": token}, keyring=False)
    last = events(at)[-1]
    assert isinstance(last.error, CredentialsError)
    assert "Canonical String" in last.error.message
    assert token not in f"{last.error} {last.error.message} {last.error.body!r} {last.error.members}"


def test_who_wants_a_key_does_not_sign(segue_emulator_server: Served) -> None:
    last = events(provider(segue_emulator_server, SIGNING, credentials="key"))[-1]
    assert last.error.code == "missing_key"
    assert list(segue_emulator_server.emulator.log) == []


def test_without_a_key_and_credentials_the_error_says_what_to_set(
    segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone(monkeypatch, tmp_path)
    last = events(provider(segue_emulator_server, {}))[-1]
    assert isinstance(last.error, CredentialsError)
    assert "AWS_BEARER_TOKEN_BEDROCK" in last.error.hint
    assert last.error.code == "missing_key"


def test_a_bare_id_that_needs_a_profile_is_refused_with_the_hint(segue_emulator_server: Served) -> None:
    (*_, last) = events(provider(segue_emulator_server, BEARER), model=CLAUDE.removeprefix("us."))
    assert isinstance(last, Failed)
    assert isinstance(last.error, InvalidRequestError)
    assert "inference profile" in last.error.hint
    assert "global." in last.error.hint


def test_a_tool_turn_with_thinking_returns_its_signature(segue_emulator_server: Served) -> None:
    """BDR-14, BDR-15: in the session's next request, to the same model."""
    pieces = (Think("Let me see."), Call("read", {"path": "a"}))
    assert isinstance(segue_emulator_server.emulator.responder, ScriptedResponder)
    segue_emulator_server.emulator.responder.add(Reply(pieces=pieces), Reply(pieces=(Say("Done."),)))
    at = provider(segue_emulator_server, SIGNING)
    asked: dict[str, Any] = {
        "tools": (ToolSpec("read", "Reads.", {"type": "object", "properties": {}}),),
        "options": Options(thinking_budget=2000, max_tokens=4000),
        "session": "one",
    }
    said = Conversation(system="Be brief.").append(user("Read."))
    reply = fold_stream(events(at, conversation=said, **asked))
    assert reply.error is None
    assert any(isinstance(block, Reasoning) and block.seal is not None for block in reply.message.blocks)
    said = said.append(reply.message)
    (call,) = [block for block in said.messages[-1].blocks if isinstance(block, ToolCall)]
    from segue.conversation.message import Message

    said = said.append(Message("tool", (ToolResult(call.id, "read", "text of a"),)))
    received = events(at, conversation=said, **asked)
    assert isinstance(received[-1], Finished), received[-1]
    sent = json.loads(received[0].body)
    assert "signature" in sent["messages"][1]["content"][0]["reasoningContent"]["reasoningText"]
    assert sent["messages"][-1]["content"][-1] == {"cachePoint": {"type": "default"}}
    assert [entry.rule for entry in segue_emulator_server.emulator.log if entry.rule] == []


@pytest.mark.parametrize(
    ("name", "model", "dialect", "path"),
    [
        (
            "bedrock",
            CLAUDE,
            "converse",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream",
        ),
        (
            "bedrock",
            "global.anthropic.claude-sonnet-4-6",
            "converse",
            "/model/global.anthropic.claude-sonnet-4-6/converse-stream",
        ),
        ("bedrock", "amazon.nova-lite-v1:0", "converse", "/model/amazon.nova-lite-v1%3A0/converse-stream"),
        ("bedrock", "anthropic.claude-opus-4-8", "anthropic", "/anthropic/v1/messages"),
        ("bedrock", "us.anthropic.claude-opus-4-7", "anthropic", "/anthropic/v1/messages"),
        ("bedrock", "openai.gpt-oss-120b-1:0", "openai_compatible", "/openai/v1/chat/completions"),
        ("bedrock", "openai.gpt-5.5", "openai_responses", "/openai/v1/responses"),
        ("bedrock-mantle", "anthropic.claude-opus-4-8", "anthropic", "/anthropic/v1/messages"),
        ("bedrock-mantle", "openai.gpt-oss-120b", "openai_compatible", "/v1/chat/completions"),
    ],
)
def test_the_model_decides_the_wire_and_its_address(name: str, model: str, dialect: str, path: str) -> None:
    at = connect(name, environ={**BEARER, "AWS_REGION": "us-west-2"}, keyring=False)
    endpoint, where, _ = at.endpoint_of(model)
    host = {
        "bedrock": "bedrock-runtime.us-west-2.amazonaws.com",
        "bedrock-mantle": "bedrock-mantle.us-west-2.api.aws",
    }
    assert endpoint.dialect.name == dialect
    assert endpoint.url(where) == f"https://{host[name]}{path}"
    assert at.target(model).endpoint == endpoint.base_url


@pytest.mark.parametrize("name", ["bedrock", "bedrock-mantle"])
def test_a_model_of_openai_has_its_card_on_the_wire_that_it_is_asked_in(name: str) -> None:
    at = connect(name, environ={**BEARER, "AWS_REGION": "us-west-2"}, keyring=False)
    for model in ("openai.gpt-5.5", "us.openai.gpt-5.5"):
        card = at.card(model)
        assert (card.context, card.sampling, card.thinking) == (1_050_000, False, "effort")
    assert at.card("openai.gpt-oss-120b-1:0").context == 128_000
    assert at.endpoint_of("openai.newest")[0].dialect.name == "openai_responses"


def test_marks_for_the_cache_are_those_of_the_wire() -> None:
    at = connect("bedrock", environ={**BEARER, "AWS_REGION": "us-west-2"}, keyring=False)
    said = Conversation(system="Be brief.").append(user("Hello."))
    for model, marked in (
        (CLAUDE, True),
        ("meta.llama3-1-8b-instruct-v1:0", False),
        ("anthropic.claude-opus-4-8", False),
    ):
        sent = at.preview(ChatRequest(model=model, conversation=said, session="one"))
        assert (b"cachePoint" in sent.body) is marked
        assert sent.repairs == ()


# Regions


def region(config: ProviderConfig, environ: Mapping[str, str]) -> str:
    address = address_of("bedrock", config)
    assert address is not None
    return region_of(address, config, environ)


def test_the_region_is_named_and_never_guessed(tmp_path: Path) -> None:
    assert region(ProviderConfig(region="a"), {"AWS_REGION": "b"}) == "a"
    assert region(ProviderConfig(), {"AWS_REGION": "b", "AWS_DEFAULT_REGION": "c"}) == "b"
    assert region(ProviderConfig(), {"AWS_DEFAULT_REGION": "c"}) == "c"
    given = ProviderConfig(base_url="https://bedrock-runtime.eu-west-3.amazonaws.com")
    assert region(given, {"AWS_REGION": "b"}) == "eu-west-3"
    there = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "https://bedrock-runtime.eu-west-3.amazonaws.com"}
    assert region(ProviderConfig(), {"HOME": str(tmp_path), **there}) == "eu-west-3"
    file = tmp_path / "config"
    file.write_text("[default]\nregion = d\n[profile work]\nregion = e\n")
    environ = {"AWS_CONFIG_FILE": str(file)}
    assert region(ProviderConfig(), environ) == "d"
    assert region(ProviderConfig(profile="work"), environ) == "e"
    assert region(ProviderConfig(), {**environ, "AWS_PROFILE": "work"}) == "e"
    assert region(ProviderConfig(), {"HOME": str(tmp_path)}) == ""
    with pytest.raises(UsageError) as caught:
        connect("bedrock", environ={**BEARER, "HOME": str(tmp_path)}, keyring=False)
    assert caught.value.code == "no_region"
    assert "AWS_REGION" in caught.value.hint


def test_an_address_without_a_scheme_is_a_secure_one_and_has_its_region() -> None:
    for name, host in (
        ("bedrock", "bedrock-runtime.eu-west-3.amazonaws.com"),
        ("bedrock-mantle", "bedrock-mantle.eu-west-3.api.aws"),
    ):
        config = ProviderConfig(base_url=host)
        at = connect(name, config, environ=SIGNING, keyring=False)
        assert at.endpoint.base_url.startswith(f"https://{host}")
        assert region(config, {}) == "eu-west-3"


def test_models_are_listed_by_the_host_beside_the_one_that_runs_them(
    segue_emulator_server: Served,
) -> None:
    asked: list[str] = []

    def listening(request: WireRequest) -> Any:
        asked.append(request.url.partition("/foundation-models")[0].partition("/inference-profiles")[0])
        path = request.url.partition(".com")[2]
        return DEFAULT_TRANSPORT(structs.replace(request, url=segue_emulator_server.url("bedrock") + path))

    for runtime, lists in (
        ("bedrock-runtime.us-east-1", "bedrock.us-east-1"),
        ("bedrock-runtime-fips.us-east-1", "bedrock-fips.us-east-1"),
    ):
        config = ProviderConfig(base_url=f"https://{runtime}.amazonaws.com")
        at = connect("bedrock", config, environ=BEARER, keyring=False, transport=listening)
        assert at.capabilities.list_models is not None
        assert asyncio.run(at.capabilities.list_models())
        assert set(asked) == {f"https://{lists}.amazonaws.com"}
        asked.clear()


def test_a_region_is_one_part_of_the_address() -> None:
    with pytest.raises(UsageError) as caught:
        connect("bedrock", ProviderConfig(region="x@another.example/"), environ=BEARER, keyring=False)
    assert (caught.value.code, caught.value.path) == ("bad_url", "providers.bedrock.region")


def test_it_is_configured_with_a_region_and_any_source_of_credentials(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "AWS_REGION": "us-east-1"}
    assert not default_registry(environ=home, keyring=False).is_configured("bedrock")
    assert not default_registry(environ={**BEARER, "HOME": str(tmp_path)}, keyring=False).is_configured(
        "bedrock"
    )
    for environ in (BEARER, SIGNING, {"AWS_PROFILE": "work"}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "x"}):
        assert default_registry(environ={**home, **environ}, keyring=False).is_configured("bedrock")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\n")
    assert default_registry(environ=home, keyring=False).is_configured("bedrock")


# Credentials of AWS's own tools, from stand-ins on this machine


class StandIn(BaseHTTPRequestHandler):
    """Gives credentials as instance metadata, as the token service and as single sign-on do."""

    answers: ClassVar[Mapping[str, Any]] = {}
    asked: ClassVar[list[str]] = []
    status: ClassVar[int] = 200

    def answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        sent = self.rfile.read(length).decode()
        self.asked.append(f"{self.command} {self.path} {sent}")
        found = next((value for name, value in self.answers.items() if name in f"{self.path} {sent}"), None)
        body = found if isinstance(found, str) else json.dumps(found)
        self.send_response(404 if found is None else self.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_PUT = do_POST = answer  # noqa: N815 - as the class above has them

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def stand_in() -> Iterator[str]:
    StandIn.asked, StandIn.status = [], 200
    server = HTTPServer(("127.0.0.1", 0), StandIn)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(5)
    server.server_close()


def alone(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """No credentials of whoever runs the tests."""
    for name in (*SIGNING, *BEARER, "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def expiring(
    token: str = "token-of-a-session",  # noqa: S107
    *,
    minutes: float = 60,
) -> dict[str, str]:
    ends = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "AccessKeyId": ACCESS_KEY,
        "SecretAccessKey": SECRET,
        "Token": token,
        "SessionToken": token,
        "Expiration": ends,
    }


def access(environ: Mapping[str, str] | None = None, **fields: Any) -> AwsAccess:
    config = ProviderConfig()
    address = address_of("bedrock", config)
    assert address is not None
    key = key_of(address, config, environ=environ or {}, keyring=False)
    return AwsAccess(address, key, region="us-east-1", environ=environ or {}, **fields)


def signature_of(found: AwsAccess) -> Mapping[str, str]:
    asyncio.run(found.ready())
    assert found.headers() == {}
    return found.sign("POST", "https://h/model/a/converse", {"content-type": "application/json"}, b"{}")


def test_a_profile_in_the_files_of_awss_tools_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone(monkeypatch, tmp_path)
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET}\naws_session_token = t\n"
    )
    headers = signature_of(access(profile="work"))
    assert f"Credential={ACCESS_KEY}/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "t"


def test_a_profile_that_is_not_there_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone(monkeypatch, tmp_path)
    with pytest.raises(CredentialsError) as caught:
        asyncio.run(access(profile="nowhere").ready())
    assert "nowhere" in caught.value.message
    assert caught.value.hint


def test_instance_metadata_gives_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", stand_in)
    role = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "x", **expiring()}
    StandIn.answers = {
        "/latest/api/token": "t",
        "security-credentials/role": role,
        "security-credentials/": "role",
    }
    assert signature_of(access())["x-amz-security-token"] == "token-of-a-session"


def test_a_container_gives_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in}/creds")
    StandIn.answers = {"/creds": expiring()}
    assert signature_of(access())["x-amz-security-token"] == "token-of-a-session"


def test_a_role_is_assumed_with_a_web_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    (tmp_path / "token").write_text("a-web-identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/asker")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", stand_in)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    given = expiring()
    fields = "".join(
        f"<{name}>{given[name]}</{name}>"
        for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    )
    StandIn.answers = {
        "AssumeRoleWithWebIdentity": '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        f"<AssumeRoleWithWebIdentityResult><Credentials>{fields}</Credentials></AssumeRoleWithWebIdentityResult>"
        "</AssumeRoleWithWebIdentityResponse>"
    }
    assert signature_of(access())["x-amz-security-token"] == "token-of-a-session"
    assert "a-web-identity" in StandIn.asked[0]


def sign_on(monkeypatch: pytest.MonkeyPatch, home: Path, stand_in: str) -> None:
    """A profile with single sign-on."""
    alone(monkeypatch, home)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", stand_in)
    (home / "config").write_text(
        "[profile work]\nsso_start_url = https://start.example\nsso_region = us-east-1\n"
        "sso_account_id = 123456789012\nsso_role_name = asker\n"
    )


def test_single_sign_on_gives_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    import hashlib

    sign_on(monkeypatch, tmp_path, stand_in)
    name = hashlib.sha1(b"https://start.example").hexdigest()  # noqa: S324 - as AWS's tools name the file
    cache = tmp_path / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    (cache / f"{name}.json").write_text(json.dumps({"accessToken": "signed-on", "expiresAt": ends}))
    # botocore looks for it in the home that it saw when it was loaded.
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", str(cache))
    ends_at = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
    role = {
        "accessKeyId": ACCESS_KEY,
        "secretAccessKey": SECRET,
        "sessionToken": "sso-token",
        "expiration": ends_at,
    }
    StandIn.answers = {"/federation/credentials": {"roleCredentials": role}}
    assert signature_of(access(profile="work"))["x-amz-security-token"] == "sso-token"


def test_who_is_signed_out_is_told_how_to_sign_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    sign_on(monkeypatch, tmp_path, stand_in)
    with pytest.raises(CredentialsError) as caught:
        asyncio.run(access(profile="work").ready())
    assert caught.value.hint.startswith("Run: aws sso login --profile work.")
    assert caught.value.code == "no_token"


def test_credentials_are_renewed_ahead_of_their_end_by_one_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in}/creds")
    StandIn.answers = {"/creds": expiring("first", minutes=30)}

    async def main() -> None:
        now = time.time()
        found = access(clock=lambda: now)
        await found.ready()
        assert len(StandIn.asked) == 1
        now += 20 * 60
        StandIn.answers = {"/creds": expiring("second")}
        for _ in range(20):
            await found.ready()  # requests that come at once wait for nobody
        assert found.sign("GET", "https://h/", {}, b"")["x-amz-security-token"] == "first"
        for _ in range(500):
            if len(StandIn.asked) > 1:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert len(StandIn.asked) == 2
        assert found.sign("GET", "https://h/", {}, b"")["x-amz-security-token"] == "second"

    asyncio.run(main())


def test_credentials_that_have_ended_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in}/creds")
    StandIn.answers = {"/creds": expiring("first", minutes=30)}
    now = [time.time()]
    found = access(clock=lambda: now[0])
    assert signature_of(found)["x-amz-security-token"] == "first"
    now[0] += 31 * 60
    StandIn.answers = {"/creds": expiring("second", minutes=90)}
    assert signature_of(found)["x-amz-security-token"] == "second"


def test_credentials_that_are_not_renewed_yet_are_not_asked_for_with_each_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    """A machine's own are replaced only some minutes before their end: until then it gives the old ones again."""
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in}/creds")
    StandIn.answers = {"/creds": expiring("first", minutes=4)}

    async def main() -> None:
        found = access()
        for _ in range(10):
            await found.ready()
            assert found.headers() == {}
            assert found.sign("GET", "https://h/", {}, b"")["x-amz-security-token"] == "first"
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert len(StandIn.asked) <= 4, "looked for twice; botocore asks twice for what ends soon"


def test_credentials_are_looked_for_beside_the_event_loop_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", stand_in)
    StandIn.answers = {}  # a machine without a role
    config = ProviderConfig(base_url=stand_in, region="us-east-1")
    last = events(connect("bedrock", config, environ={}, keyring=False))[-1]
    assert last.error.code == "missing_key"
    asked = [line for line in StandIn.asked if "/latest/api/token" in line]
    assert len(asked) == 1, "once, in a thread"


def test_what_no_tool_of_aws_expects_is_an_error_of_credentials_without_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone(monkeypatch, tmp_path)
    told = "Bearer secret-of-the-program-0123456789"
    (tmp_path / "config").write_text(
        f"[profile work]\ncredential_process = sh -c \"echo '{told}' >&2; exit 1\"\n"
        "[profile none]\ncredential_process = no-such-program-here\n"
    )
    for profile in ("work", "none"):
        with pytest.raises(CredentialsError) as caught:
            asyncio.run(access(profile=profile).ready())
        assert caught.value.code == "no_token"
        assert "secret-of-the-program" not in str(caught.value)


def test_a_configuration_is_checked_without_a_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    alone(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in}/creds")
    StandIn.answers = {"/creds": expiring()}
    config = ProviderConfig(base_url=stand_in, region="us-east-1")
    environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{stand_in}/creds"}
    assert connect("bedrock", config, environ=environ, keyring=False).validate_config() == []
    assert StandIn.asked == []


def test_the_advice_for_credentials_is_that_of_awss_tools(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: str
) -> None:
    sign_on(monkeypatch, tmp_path, stand_in)
    config = ProviderConfig(base_url=stand_in, region="us-east-1", profile="work")
    health = asyncio.run(connect("bedrock", config, environ={}, keyring=False).health())
    assert "aws sso login --profile work" in health.advice


def test_botocore_is_not_loaded_for_a_key_or_variables() -> None:
    import subprocess
    import sys

    code = (
        "import sys, asyncio\nfrom segue.providers.factory import connect\n"
        f"at = connect('bedrock', environ={ {**SIGNING, 'AWS_REGION': 'us-east-1'}!r}, keyring=False)\n"
        "asyncio.run(at.endpoint.ready()); at.endpoint.sign('POST', 'https://h/', {}, b'')\n"
        "assert 'botocore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)  # noqa: S603


# Messages, Chat and Responses at AWS, InvokeModel, and Claude Platform on AWS

AT_AWS = (
    ("bedrock", "bedrock", "us.anthropic.claude-opus-4-7"),
    ("bedrock", "bedrock", "openai.gpt-oss-120b-1:0"),
    ("bedrock", "bedrock", "openai.gpt-5.5"),
    ("bedrock-invoke", "bedrock", CLAUDE),
    ("bedrock-mantle", "bedrock-mantle", "anthropic.claude-opus-4-8"),
    ("bedrock-mantle", "bedrock-mantle", "openai.gpt-oss-120b"),
    ("bedrock-mantle", "bedrock-mantle", "openai.gpt-5.5"),
    ("claude-aws", "claude-aws", "claude-sonnet-4-6"),
)


def at_aws(served: Served, name: str, mount: str, environ: Mapping[str, str], **fields: Any) -> Provider:
    given = {"region": "eu-central-1", "workspace": "wrkspc_01", **fields}
    config = ProviderConfig(base_url=served.url(mount), **given)
    return connect(name, config, environ=environ, keyring=False)


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize("environ", [SIGNING, BEARER], ids=["signed", "key"])
@pytest.mark.parametrize(("name", "mount", "model"), AT_AWS)
def test_every_wire_of_aws_answers_whoever_signs_or_has_a_key(
    name: str, mount: str, model: str, environ: Mapping[str, str], whole: bool, segue_emulator_server: Served
) -> None:
    if name == "claude-aws" and environ is BEARER:
        environ = {"ANTHROPIC_AWS_API_KEY": "key-of-a-workspace"}
    at = at_aws(segue_emulator_server, name, mount, environ)
    received = events(at, model=model, options=Options(stream=not whole))
    assert isinstance(received[-1], Finished), received[-1]
    assert fold_stream(received).message.text == "You said: Hello."
    wrong = {**SIGNING, "AWS_SECRET_ACCESS_KEY": "wrong"}
    last = events(at_aws(segue_emulator_server, name, mount, wrong), model=model)[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, CredentialsError)
    assert last.error.code == "InvalidSignatureException"


def test_a_signature_for_one_service_of_aws_is_refused_by_another(segue_emulator_server: Served) -> None:
    """AWS-02: three services, three names in the signature."""
    mounts = {"bedrock": CLAUDE, "bedrock-mantle": "anthropic.claude-opus-4-8", "claude-aws": "claude-opus-5"}
    for name, model in mounts.items():
        for mount in mounts:
            # With one dialect, so that the path is the same everywhere but for the service.
            at = at_aws(segue_emulator_server, name, mount, SIGNING)
            accepted = isinstance(events(at, model=model)[-1], Finished)
            assert accepted is (name == mount), (name, mount)


def test_a_workspace_is_named_in_every_request_to_claude_platform_on_aws(
    segue_emulator_server: Served,
) -> None:
    at = at_aws(segue_emulator_server, "claude-aws", "claude-aws", SIGNING)
    assert at.endpoint.headers()["anthropic-workspace-id"] == "wrkspc_01"
    with pytest.raises(UsageError) as caught:
        at_aws(segue_emulator_server, "claude-aws", "claude-aws", SIGNING, workspace="")
    assert "ANTHROPIC_AWS_WORKSPACE_ID" in caught.value.hint
    home = connect(
        "claude-aws",
        environ={"AWS_REGION": "us-east-1", "ANTHROPIC_AWS_API_KEY": "k", "ANTHROPIC_AWS_WORKSPACE_ID": "w"},
        keyring=False,
    )
    assert home.endpoint.base_url == "https://aws-external-anthropic.us-east-1.api.aws"
    assert home.endpoint.headers() == {
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
        "anthropic-workspace-id": "w",
    }


def test_invoke_model_has_its_own_envelope(segue_emulator_server: Served) -> None:
    """AWS-03, AWS-04: version and betas are in the body, model and stream in the path."""
    at = at_aws(segue_emulator_server, "bedrock-invoke", "bedrock", SIGNING)
    beta = {"anthropic-beta": "context-1m-2025-08-07"}
    received = events(at, headers=beta)
    assert isinstance(received[-1], Finished), received[-1]
    sent = json.loads(received[0].body)
    assert sent["anthropic_version"] == "bedrock-2023-05-31"
    assert sent["anthropic_beta"] == ["context-1m-2025-08-07"]
    assert {"model", "stream"} & sent.keys() == set()
    assert segue_emulator_server.emulator.log[-1].path.endswith("/invoke-with-response-stream")


def test_a_beta_that_invoke_model_refuses_is_dropped_with_its_field(segue_emulator_server: Served) -> None:
    """AWS-08."""
    segue_emulator_server.emulator.withheld = frozenset(
        {"context-management-2025-06-27", "context_management"}
    )
    try:
        at = at_aws(segue_emulator_server, "bedrock-invoke", "bedrock", SIGNING)
        beta = {"anthropic-beta": "context-management-2025-06-27,context-1m-2025-08-07"}
        asked = Options(extra={"context_management": {"edits": []}})
        for _ in range(2):
            received = events(at, headers=beta, options=asked)
            assert isinstance(received[-1], Finished), received[-1]
            body = segue_emulator_server.emulator.log[-1].body
            assert body["anthropic_beta"] == ["context-1m-2025-08-07"]
            assert "context_management" not in body
        verdicts = [entry.verdict for entry in segue_emulator_server.emulator.log]
        assert verdicts == ["refused", "accepted", "accepted"]
    finally:
        segue_emulator_server.emulator.withheld = frozenset()


def test_a_bare_id_is_refused_by_invoke_model_with_the_hint(segue_emulator_server: Served) -> None:
    at = at_aws(segue_emulator_server, "bedrock-invoke", "bedrock", SIGNING)
    last = events(at, model=CLAUDE.removeprefix("us."))[-1]
    assert "inference profile" in last.error.hint


@pytest.mark.parametrize(
    ("exception", "kind"),
    [("throttlingException", RateLimitError), ("modelStreamErrorException", OverloadError)],
)
def test_an_exception_in_a_framed_stream_is_the_error_that_it_names(
    exception: str, kind: type[Exception]
) -> None:
    begun = event_frame("chunk", json.dumps({"bytes": b64encode(b'{"type":"ping"}').decode()}).encode())
    ended = exception_frame(exception, b'{"message":"Too much."}')
    last = framed_events(begun + ended)[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, kind)
    assert "Too much." in last.error.message


@pytest.mark.parametrize("cut", ["frame", "checksum", "payload"])
def test_a_framed_stream_that_is_cut_or_changed_is_a_broken_reply(cut: str) -> None:
    whole = event_frame("chunk", json.dumps({"bytes": b64encode(b'{"type":"ping"}').decode()}).encode())
    broken = {
        "frame": whole + whole[:-9],
        "checksum": whole + whole[:-1] + bytes([whole[-1] ^ 1]),
        "payload": whole + event_frame("chunk", b'{"bytes":"not base64"}'),
    }
    last = framed_events(broken[cut])[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, ProtocolError)


def framed_events(body: bytes) -> list[Any]:
    class Framed(Said):
        headers: Mapping[str, str] = {"content-type": "application/vnd.amazon.eventstream"}

    @asynccontextmanager
    async def answer(request: WireRequest) -> AsyncIterator[WireResponse]:
        yield Framed(body)

    config = ProviderConfig(base_url="http://127.0.0.1:9", region="eu-central-1")
    at = connect("bedrock-invoke", config, environ=SIGNING, keyring=False, transport=answer)
    return events(at)


def test_tokens_are_counted_for_invoke_model(segue_emulator_server: Served) -> None:
    """AWS-09: with the whole request as base64."""
    at = at_aws(segue_emulator_server, "bedrock-invoke", "bedrock", SIGNING)
    assert at.capabilities.count_tokens is not None
    request = ChatRequest(model=CLAUDE, conversation=Conversation().append(user("Hello.")))
    count = at.capabilities.count_tokens

    async def main() -> int:
        return await count(request)

    assert asyncio.run(main()) > 0
    assert [entry.rule for entry in segue_emulator_server.emulator.log if entry.rule] == []


@pytest.mark.parametrize("model", ["amazon.titan-embed-text-v2:0", "cohere.embed-multilingual-v3"])
def test_vectors_are_made_by_invoke_model(model: str, segue_emulator_server: Served) -> None:
    at = provider(segue_emulator_server, SIGNING)
    assert at.capabilities.embed is not None
    vectors = asyncio.run(at.capabilities.embed(["one", "two", "three"], model=model))
    assert [len(vector) for vector in vectors] == [1024] * 3
    shorter = asyncio.run(at.capabilities.embed(["one"], model=model, dimensions=256))
    assert len(shorter[0]) == 256
    assert at.capabilities.embedding_model == "amazon.titan-embed-text-v2:0"


@pytest.mark.parametrize("name", ["bedrock", "bedrock-invoke", "bedrock-mantle", "claude-aws"])
def test_models_are_listed_and_health_is_known_wherever_aws_has_them(
    name: str, segue_emulator_server: Served
) -> None:
    mount = {"bedrock-invoke": "bedrock"}.get(name, name)
    at = at_aws(segue_emulator_server, name, mount, SIGNING)
    assert at.capabilities.list_models is not None
    assert asyncio.run(at.capabilities.list_models())
    assert asyncio.run(at.health()).status == "healthy"
    wrong = at_aws(segue_emulator_server, name, mount, {**SIGNING, "AWS_SECRET_ACCESS_KEY": "wrong"})
    assert asyncio.run(wrong.health()).status == "unhealthy"


def test_an_open_model_at_mantle_is_asked_in_chat() -> None:
    at = connect("bedrock-mantle", environ={**BEARER, "AWS_REGION": "us-west-2"}, keyring=False)
    for model in ("deepseek.v3.2", "qwen.qwen3-coder", "moonshotai.kimi-k2"):
        endpoint, path, _ = at.endpoint_of(model)
        assert endpoint.url(path) == "https://bedrock-mantle.us-west-2.api.aws/v1/chat/completions"
    endpoint, path, _ = at.endpoint_of("openai.gpt-5.5")
    assert endpoint.url(path) == "https://bedrock-mantle.us-west-2.api.aws/openai/v1/responses"


@pytest.mark.parametrize(
    ("name", "model", "dollars"),
    [
        ("bedrock", "us.amazon.nova-lite-v1:0", 0.06),
        ("bedrock", "global.anthropic.claude-sonnet-4-6", 3.0),
        ("bedrock-invoke", CLAUDE, 3.3),
        ("bedrock-mantle", "anthropic.claude-opus-4-8", 5.5),
        ("claude-aws", "claude-sonnet-4-6", 3.0),
        ("bedrock", "anthropic.claude-nobody-knows", None),
    ],
)
def test_models_at_aws_have_the_prices_of_their_profile(name: str, model: str, dollars: float | None) -> None:
    assert cost_of(Usage(input_tokens=1_000_000, output_tokens=0), name, model) == dollars
