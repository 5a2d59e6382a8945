"""One request to one route, as pieces of the reply: what arrived, and the bytes that the client gets for it.

A reply is translated event by event, or forwarded byte by byte where client and provider use the same wire.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Failed, Reply, fold
from segue.errors import ProtocolError, SegueError
from segue.gateway.model_field import ModelField, renamed
from segue.providers.adapter import RequestSent
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from segue.conversation.blocks import Reasoning
    from segue.dialects.dialect import ReplyEncoder
    from segue.gateway.turns import ClientTurn
    from segue.providers.adapter import ChatRequest, ProviderAdapter
    from segue.providers.capabilities import Forward
    from segue.transcript.repairs import Repair
    from segue.transcript.respond import Visibility


class Piece(NamedTuple):
    """Some of a reply. `data` is for a client that streams."""

    events: list[Event]
    data: bytes


class RouteAttempt(Protocol):
    """Used once. What goes wrong is a `Failed` among the events; nothing is raised but cancellation."""

    origin: Origin
    made_under: str
    repairs: tuple[Repair, ...]
    """Of the request, from the client's bytes on."""
    forwarded: bool
    headers: Mapping[str, str]
    """Of the provider's response, as far as they are the client's affair."""

    def pieces(self) -> AsyncGenerator[Piece, None]: ...

    def close(self) -> bytes:
        """The last bytes of a streamed reply that succeeded."""
        ...

    def whole(self, reply: Reply) -> bytes:
        """The whole reply, for a client that does not stream or asks for it later. `reply`: as it was folded."""
        ...

    def broken(self, error: SegueError) -> bytes:
        """The bytes that end a stream which broke off."""
        ...

    def call_ids(self) -> dict[str, str]:
        """The id of each call at the client → its canonical id."""
        ...


@final
class TranslatedAttempt:
    """The request is planned for the provider's wire, and its reply made valid on the client's."""

    forwarded = False

    def __init__(
        self,
        turn: ClientTurn,
        provider: ProviderAdapter,
        request: ChatRequest,
        *,
        nonce: str,
        home: bool,
        reasoning: Visibility,
        capsule: Callable[[Reasoning], str],
    ) -> None:
        self.origin = Origin(provider=provider.name, model=request.model)
        self.made_under = ""
        self.repairs: tuple[Repair, ...] = turn.repairs
        self.headers: Mapping[str, str] = {}
        self._turn = turn
        self._provider = provider
        self._request = request
        self._home = home
        self._reasoning: Visibility = reasoning
        self._capsule = capsule
        self._nonce = nonce
        self._shown: list[Event] = []
        self._responder: Responder | None = None
        self._encoder: ReplyEncoder = turn.dialect.new_encoder(turn.asked)

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        keep = self._turn.prepared.kept or not self._turn.stream
        whole = not self._turn.stream
        encoder = self._encoder
        stream = self._provider.chat_stream(self._request)
        responder = self._responder
        async with aclosing(stream) as events:  # type: ignore[type-var]  # providers give generators
            async for event in events:
                if type(event) is RequestSent:
                    responder = self._begin(event)
                    continue
                if responder is None:
                    yield Piece([event], b"")
                    continue
                shown = responder.feed(event)
                if keep:
                    self._shown += shown
                failed: list[Event] = [one for one in shown if type(one) is Failed]
                if whole or type(event) is Failed:
                    yield Piece(failed or [event], b"")
                else:
                    data = encoder.feed(shown[0]) if len(shown) == 1 else b"".join(map(encoder.feed, shown))
                    yield Piece(failed or [event], data)

    def _begin(self, sent: RequestSent) -> Responder:
        turn = self._turn
        self.origin, self.made_under = sent.origin, sent.made_under
        self.repairs = (*turn.repairs, *sent.repairs)
        asked = ClientRequest(
            wire=turn.dialect.client,
            nonce=self._nonce,
            model=turn.asked,
            used_ids=turn.used_ids,
            tools=turn.tools,
            minted=turn.conversation.minted,
        )
        self._responder = Responder(
            asked,
            sent.origin,
            home=self._home,
            streamed=turn.stream,
            reasoning=self._reasoning,
            capsule=self._capsule,
        )
        return self._responder

    def close(self) -> bytes:
        return self._encoder.close()

    def whole(self, reply: Reply) -> bytes:
        del reply  # the client was shown a part of it
        shown = fold(self._shown, Origin(dialect=self._turn.dialect.name, model=self._turn.asked))
        return self._turn.dialect.encode_reply(structs.replace(shown, model=self._turn.asked))

    def broken(self, error: SegueError) -> bytes:
        return self._encoder.feed(Failed(error))

    def call_ids(self) -> dict[str, str]:
        known = self._responder.ids if self._responder is not None else {}
        return {client: ids.canonical for client, ids in known.items()}


@final
class ForwardedAttempt:
    """The client's bytes go to a provider of the same wire, and its bytes come back."""

    forwarded = True
    made_under = ""
    repairs: tuple[Repair, ...] = ()

    def __init__(self, turn: ClientTurn, forward: Forward, model: str, body: bytes) -> None:
        self.origin = forward.target(model)
        self.headers: Mapping[str, str] = {}
        self._turn = turn
        self._forward = forward
        self._model = model
        self._body = body
        self._renaming = ModelField(turn.dialect.server.reply_model_field, turn.asked)
        self._whole = b""
        self._ids: dict[str, str] = {}

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        turn = self._turn
        server = turn.dialect.server
        try:
            async with self._forward.send(
                self._model, self._body, stream=turn.stream, headers=forwarded_headers(turn)
            ) as answer:
                self.headers = {
                    name: value
                    for name, value in answer.headers.items()
                    if server.returned_headers and name.startswith(server.returned_headers)
                }
                if not turn.stream:
                    self._whole = await answer.read()
                    yield Piece(turn.dialect.decode_reply(self._whole), b"")
                    return
                decoder = turn.dialect.new_decoder()
                async for portion in answer.portions():
                    events = decoder.feed(portion)
                    yield Piece(events, self._renaming.feed(portion, events))
            yield Piece(decoder.close(), self._renaming.close())
        except SegueError as error:
            yield Piece([Failed(error)], b"")
        except Exception as error:  # whatever it is, the gateway continues
            failure = ProtocolError(f"Unexpected {type(error).__name__} while a reply was forwarded.")
            failure.__cause__ = error
            yield Piece([Failed(failure)], b"")

    def close(self) -> bytes:
        return b""

    def whole(self, reply: Reply) -> bytes:
        turn = self._turn
        if turn.stream:
            return turn.dialect.encode_reply(structs.replace(reply, model=turn.asked))
        return renamed(self._whole, turn.dialect.server.reply_model_field, turn.asked)

    def broken(self, error: SegueError) -> bytes:
        return self._turn.dialect.server.error_frame(error)

    def call_ids(self) -> dict[str, str]:
        return self._ids

    def keep_ids(self, reply: Reply) -> None:
        """The provider's own ids are the client's too."""
        self._ids = {call.native_id: call.id for call in reply.message.calls if call.native_id}


def forwarded_headers(turn: ClientTurn) -> dict[str, str]:
    """The client's headers that belong to its wire, for a provider of the same one."""
    prefixes = turn.dialect.server.forwarded_headers
    return {name: value for name, value in turn.request.headers.items() if name.startswith(prefixes)}
