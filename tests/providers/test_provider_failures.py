from __future__ import annotations

import asyncio
import logging
from typing import Any, NoReturn

import msgspec
import pytest
from msgspec import structs

from segue.conversation.events import Failed, Finished, TextDelta
from segue.conversation.message import Conversation
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.emulators.server import Served
from segue.errors import OverloadError, ProtocolError, RateLimitError, TransportError
from segue.providers.adapter import ChatRequest, StreamEvent
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import Timeouts, WireRequest
from strategies.provider_places import (
    KEY,
    PLACES,
    WEATHER,
    Place,
    asking,
    events_of,
    failure_of,
    provider_at,
    say,
)

every_place = pytest.mark.parametrize("place", PLACES, ids=str)
OPENAI, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, KIMI, DEEPSEEK, OLLAMA, BEDROCK = PLACES


def local(application: Any, name: str = "openai-compatible", **settings: Any) -> Provider:
    """A provider whose server is a function in this process."""
    config = ProviderConfig(base_url="http://loopback/v1", **settings)
    return connect(name, config, api_key=KEY, environ={}, keyring=False, transport=AsgiTransport(application))


def answering(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        told = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": status, "headers": told})
        await send({"type": "http.response.body", "body": body})

    return application


@every_place
@pytest.mark.parametrize(("status", "remedy"), [(401, "log_in"), (429, "wait"), (500, "go_elsewhere")])
@pytest.mark.requirement("Property 16")
def test_a_refusal_keeps_its_status_and_says_what_would_help(
    segue_emulator_server: Served, place: Place, status: int, remedy: str
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=status, retry_after=7))
    error = failure_of(provider_at(segue_emulator_server, place), asking(place))
    assert getattr(error, "status", None) == status
    assert error.remedy == remedy
    if status == 429:
        assert isinstance(error, RateLimitError)
        assert error.retry_after == 7


@every_place
@pytest.mark.parametrize("kind", ["cut", "content_type", "empty"])
def test_an_answer_that_is_none_is_told_and_the_provider_stays_usable(
    segue_emulator_server: Served, place: Place, kind: Any
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(kind=kind, at_byte=90))
    provider = provider_at(segue_emulator_server, place)

    async def main() -> tuple[StreamEvent, StreamEvent]:
        first = [event async for event in provider.chat_stream(asking(place))]
        second = [event async for event in provider.chat_stream(asking(place))]
        return first[-1], second[-1]

    first, second = asyncio.run(main())
    assert isinstance(first, Failed)
    assert isinstance(second, Finished)
    if kind == "empty":
        assert first.error.message == "No response body"
        assert isinstance(first.error, ProtocolError)


@every_place
def test_an_error_in_mid_stream_ends_it(segue_emulator_server: Served, place: Place) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("word " * 40),)))
    fault = Fault(kind="error_mid_stream", status=503, at_byte=900)
    segue_emulator_server.emulator.faults.append(fault)
    error = failure_of(provider_at(segue_emulator_server, place), asking(place))
    assert isinstance(error, OverloadError)
    assert bool(error.request_id) == (
        place in (OPENAI, RESPONSES, ANTHROPIC, KIMI)
    )  # others number no requests


def test_a_provider_that_says_nothing_is_given_up(segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(kind="silence", seconds=20))
    provider = provider_at(segue_emulator_server, OPENAI, Timeouts(first_byte=0.1))
    error = failure_of(provider, asking(OPENAI))
    assert isinstance(error, TransportError)
    assert error.code == "first_byte_timeout"


def test_a_dripping_answer_is_the_same_answer(segue_emulator_server: Served) -> None:
    for place in (OPENAI, OLLAMA):
        say(segue_emulator_server, Reply(pieces=(Say("Ünï ✓"),)))
        segue_emulator_server.emulator.faults.append(Fault(kind="drip", size=7, seconds=0.0005))
        events = events_of(provider_at(segue_emulator_server, place), asking(place))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Ünï ✓"


@every_place
@pytest.mark.parametrize(
    "said", [Say("Good day to you."), Call("get_weather", {"city": "Rome"})], ids=["text", "call"]
)
@pytest.mark.requirement("Property 15")
def test_a_frame_that_cannot_be_read_is_an_error_and_no_hole(
    segue_emulator_server: Served, place: Place, said: Say | Call
) -> None:
    say(segue_emulator_server, Reply(pieces=(said,)))
    segue_emulator_server.emulator.faults.append(Fault(kind="malformed"))
    error = failure_of(provider_at(segue_emulator_server, place), asking(place, tools=(WEATHER,)))
    assert isinstance(error, ProtocolError)
    assert "broke off" in error.message


@pytest.mark.requirement("Property 35")
def test_headers_that_cannot_be_made_are_a_failure_and_nothing_is_raised() -> None:
    def headers() -> dict[str, str]:
        raise AttributeError("no such thing")

    provider = local(answering(200))
    broken = Provider(structs.replace(provider.endpoint, headers=headers))
    assert failure_of(broken, asking(OPENAI)).code == "unexpected"


@pytest.mark.requirement("Property 16")
def test_nobody_listening_is_a_failure_that_names_the_address() -> None:
    provider = connect("ollama", environ={"OLLAMA_HOST": "127.0.0.1:9"}, keyring=False)
    error = failure_of(provider, asking(OLLAMA))
    assert error.code == "CONNECTION_FAILED"
    assert "http://127.0.0.1:9/api/chat" in error.message


def test_a_conversation_that_cannot_be_said_is_a_failure_and_nothing_is_sent(
    segue_emulator_server: Served,
) -> None:
    provider = provider_at(segue_emulator_server, OPENAI)
    error = failure_of(provider, ChatRequest(model="gpt-4.1", conversation=Conversation()))
    assert error.code == "empty"
    assert not segue_emulator_server.emulator.log


@pytest.mark.requirement("Property 35")
def test_what_nobody_expected_is_a_failure_too() -> None:
    def boom(_: WireRequest) -> NoReturn:
        raise ZeroDivisionError(f"with Bearer {KEY}")

    provider = local(answering(200))
    error = failure_of(Provider(structs.replace(provider.endpoint, transport=boom)), asking(OPENAI))
    assert isinstance(error, ProtocolError)
    assert error.code == "unexpected"
    assert KEY not in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "12"}, 12, 12),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 1e9, 1e12),
        ({"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}, 0, 0),
    ],
)
def test_the_pause_a_provider_asks_for_is_understood(
    headers: dict[str, str], least: float, most: float
) -> None:
    told = {"x-request-id": "req_7", **headers}
    error = failure_of(local(answering(429, b"{}", told)), asking(OPENAI))
    assert isinstance(error, RateLimitError)
    assert error.retry_after is not None
    assert least <= error.retry_after <= most
    assert error.request_id == "req_7"


def test_a_pause_that_makes_no_sense_is_none() -> None:
    error = failure_of(local(answering(503, b"{}", {"retry-after": "soon"})), asking(OPENAI))
    assert isinstance(error, OverloadError)
    assert error.retry_after is None


def test_a_key_that_the_server_repeats_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    body = msgspec.json.encode({"error": {"message": f"{KEY} is not welcome", "code": "x"}})
    stream = b"data: " + body + b"\n\n"
    with caplog.at_level(logging.DEBUG):
        for application in (answering(403, body), answering(200, stream)):
            provider = local(application)
            error = failure_of(provider, asking(OPENAI))
            shown = [repr(error), str(error), str(error.as_dict()), str(vars(error)), repr(vars(provider))]
            assert all(KEY not in text for text in shown)
    assert KEY not in caplog.text
