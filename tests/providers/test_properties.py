"""Properties of every provider, for any reply and any failure of its connection."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.events import Event, Failed, Finished
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.providers.adapter import RequestSent, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.transports.asgi import Application, AsgiTransport
from strategies.examples import AT_LEAST_100
from strategies.provider_places import KEY, PLACES, WEATHER, Place, asking, events_of

requirement = pytest.mark.requirement
_PLACES = st.sampled_from(PLACES)
_WORDS = st.text("abc äß€,.", min_size=1, max_size=40).filter(lambda text: bool(text.strip()))
_SAID = st.lists(st.builds(Say, _WORDS), max_size=1)
_CALLED = st.lists(
    st.builds(Call, st.just("get_weather"), st.fixed_dictionaries({"city": _WORDS})), max_size=3
)


def _provider(place: Place, application: Application) -> Provider:
    config = ProviderConfig(base_url=f"http://loopback/{place.name}{place.path}", api_key=Secret(KEY))
    return connect(place.name, config, environ={}, keyring=False, transport=AsgiTransport(application))


def _saying(*pieces: Piece) -> App:
    responder = ScriptedResponder()
    responder.add(Reply(pieces=pieces))
    return App(Emulator(responder=responder))


@AT_LEAST_100
@requirement("Property 10")
@given(place=_PLACES, said=_SAID, called=_CALLED)
def test_any_reply_of_any_provider_is_a_stream_of_events_with_one_end(
    place: Place, said: list[Say], called: list[Call]
) -> None:
    pieces: tuple[Piece, ...] = (*said, *called) or (Say("Well."),)
    events = events_of(_provider(place, _saying(*pieces)), asking(place, tools=(WEATHER,)))
    assert isinstance(events[0], RequestSent)
    assert all(isinstance(event, get_args(Event)) for event in events[1:])
    assert [type(event) for event in events if isinstance(event, Finished | Failed)] == [Finished]
    assert isinstance(events[-1], Finished)
    reply = fold_stream(events)
    assert (
        reply.message.text.strip()
        == "".join(piece.text for piece in pieces if isinstance(piece, Say)).strip()
    )
    assert [call.arguments for call in reply.message.calls] == [
        piece.arguments for piece in pieces if isinstance(piece, Call)
    ]


@AT_LEAST_100
@requirement("Property 11")
@given(place=_PLACES, text=_WORDS)
def test_who_counts_tokens_gives_a_positive_number_and_who_keeps_models_manages_them(
    place: Place, text: str
) -> None:
    can = _provider(place, _saying()).capabilities
    if can.count_tokens is not None:
        assert asyncio.run(_counted(can.count_tokens(asking(place, text)))) > 0
    assert (can.count_tokens is not None) == (place.name in ("anthropic", "bedrock", "gemini", "openai"))
    assert can.list_models is not None
    assert (can.show_model is not None) == (place.name != "bedrock")  # its runtime knows names alone
    keeps = place.name == "ollama"
    assert [can.pull_model is not None, can.delete_model is not None] == [keeps, keeps]


async def _counted(counting: Any) -> int:
    tokens = await counting
    assert type(tokens) is int
    return tokens


def _breaking(application: Application, after: int) -> Application:
    """The application, whose connection breaks after so many bytes of its answer; before its headers where that is 0."""

    async def cut(scope: Any, receive: Any, send: Any) -> None:
        left = after

        async def pass_on(message: Any) -> None:
            nonlocal left
            if not after:
                raise ConnectionResetError("reset by peer")
            if message["type"] == "http.response.body":
                body = message.get("body", b"")[:left]
                left -= len(body)
                await send({**message, "body": body, "more_body": True})
                if not left:
                    raise ConnectionResetError("reset by peer")
            else:
                await send(message)

        await application(scope, receive, pass_on)

    return cut


@AT_LEAST_100
@requirement("Property 16")
@given(place=_PLACES, after=st.integers(0, 120))
def test_a_connection_that_breaks_anywhere_is_one_error_with_a_message_and_a_code(
    place: Place, after: int
) -> None:
    """Every reply is longer than that."""
    application = _breaking(_saying(Say("word " * 60)), after)
    events = events_of(_provider(place, application), asking(place))
    assert [type(event) for event in events if isinstance(event, Finished | Failed)] == [Failed]
    assert isinstance(events[-1], Failed)
    error = events[-1].error
    assert error.message.strip()
    assert error.code
    assert error.remedy in ("wait", "go_elsewhere")
    assert KEY not in str(error)
