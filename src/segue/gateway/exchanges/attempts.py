"""One request to one route for a client: the bytes that it gets for each piece of the reply.

A reply is translated event by event, or forwarded byte by byte where client and provider use the same wire.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Final, TypeAlias, final

from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import (
    ArgumentsDelta,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Reply,
    ReplyStarted,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.usage import NO_USAGE, Usage
from segue.dialects.replies.translation import ReplyTranslation
from segue.dialects.replies.whole_reply import WholeReplyDecoder, decoder_for
from segue.dialects.server_side import stored_replies as stored
from segue.dialects.server_side.stored_wires import stored_wire
from segue.errors import ProtocolError, SegueError
from segue.exchange.attempt import Attempt, Piece
from segue.exchange.handovers import estimate_of, hand_over
from segue.gateway.exchanges.model_field import ModelField, WholeFrames, renamed
from segue.gateway.exchanges.usage_estimates import input_estimate, mark_of
from segue.providers.adapter import EnoughError
from segue.transcript.client_wire import ClientRequest
from segue.transcript.repairs import Repair
from segue.transcript.respond import Responder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from segue.conversation.blocks import Reasoning
    from segue.dialects.dialect import ReplyDecoder, ReplyEncoder
    from segue.exchange.handovers import Handover
    from segue.gateway.conversations.turns import ClientTurn
    from segue.providers.adapter import ChatRequest, ProviderAdapter, RequestSent
    from segue.transcript.respond import Visibility
    from segue.transports.transport import PushedResponse


_IN_WORDS: Final = Repair("calls_as_text", "", "tools", decision="the model gets its tools in words")


@final
class ReplyTiming:
    """When a reply began, how long it was waited for, and how long it took; and what it repeats of its request: what clients of some
    wires read in it."""

    def __init__(self, turn: ClientTurn) -> None:
        self.began = False
        self._turn = turn
        self._asked = monotonic()

    def stamp(self, events: list[Event]) -> list[Event]:
        """The same events, those that begin and end a reply with their time."""
        passed = monotonic() - self._asked
        stamped = [
            structs.replace(event, seconds=passed) if type(event) is Finished else event for event in events
        ]
        if not self.began:
            self.began = True
            started = stamped.pop(0) if type(stamped[0]) is ReplyStarted else ReplyStarted()
            repeated = self._turn.repeated
            stamped.insert(0, structs.replace(started, created=time(), waited=passed, repeated=repeated))
        return stamped


@final
class TranslatedAttempt(Attempt):
    """The request is planned for the provider's wire, and its reply made valid on the client's."""

    def __init__(
        self,
        turn: ClientTurn,
        provider: ProviderAdapter,
        request: ChatRequest,
        *,
        route: str,
        home: bool,
        reasoning: Visibility,
        capsule: Callable[[Reasoning], str],
        spent: Usage,
    ) -> None:
        """`spent`: on replies before it that could not be read; the client's count includes them."""
        super().__init__(provider, request, route=route)
        self.held = False
        """Whether its provider is asked to hold the conversation."""
        self.repairs: tuple[Repair, ...] = turn.repairs
        """Of the request, from the client's bytes on."""
        self.headers: Mapping[str, str] = {}
        """Of the provider's response, as far as they are the client's affair."""
        self.estimated: Usage | None = None
        """What the client is shown as usage where the provider reported none."""
        self._turn = turn
        self._home = home
        self._reasoning: Visibility = reasoning
        self._capsule = capsule
        self._spent = spent
        self._counted = NO_USAGE
        self._held: list[Event] = []
        """Of a model that writes its calls as text: what it wrote before its final answer."""
        self._shown: list[Event] = []
        self._whole = not turn.stream
        self._keep = turn.prepared.kept or self._whole
        self._shows_counts = self._whole or turn.dialect.server.streams_counts(turn.fields)
        self._responder: Responder | None = None
        self._translation: ReplyTranslation | None = None
        self._encoder: ReplyEncoder = turn.dialect.new_encoder(turn.asked)
        self._timing = ReplyTiming(turn)

    def received(self, events: list[Event], data: bytes) -> Piece:
        """What the client gets for these events. An action that cannot be read is not passed on: so the reply of a model that
        writes its calls as text is held back until its final answer begins, or until it is complete."""
        reader, last = self.reader, events[-1]
        if reader is None:
            return self._piece(events)
        if not reader.answers and type(last) not in (Finished, Failed):
            self._held += events
            return [], data
        held, self._held = self._held, []
        if self.misread(last) is not None:
            return [*held, *events], data
        before, shown = self._piece(held) if held else ([], b"")
        after, rest = self._piece(events)
        return [*before, *after], shown + rest

    def _piece(self, events: list[Event]) -> Piece:
        """What the client gets for these events."""
        translation = self._translation
        if translation is None:
            return events, b""
        last = type(events[-1])
        ends = last is Failed or last is Finished
        if ends or not self._timing.began:
            events = self._timing.stamp(events)
        if self._spent is not NO_USAGE:
            events = [self._with_spent(event) if type(event) is UsageReported else event for event in events]
        if not (self._keep or ends):
            return events, translation.feed(events if self._shows_counts else _without_counts(events))
        if self._whole:
            events = _joined(events)
        if last is Finished and (estimated := estimate_of(self.handovers)) is not None:
            self.estimated = self._spent.plus(estimated)
        reported = (
            [UsageReported(self.estimated)] if self.estimated is not None and self._shows_counts else []
        )
        shown = translation.respond([*reported, *events])
        if self._keep:
            self._shown += shown
        if ends:
            # Either comes alone; and what ends well for the provider may not be a reply that the client can read.
            events = [one for one in shown if type(one) is Failed] or events
        if self._whole or type(events[-1]) is Failed:
            return events, b""
        mark = mark_of(self._turn.dialect.server) if reported else b""
        return events, mark + translation.encode(shown)

    def _with_spent(self, event: UsageReported) -> UsageReported:
        self._counted = self._counted.updated(event.usage)
        return UsageReported(self._spent.plus(self._counted))

    def begin(self, sent: RequestSent) -> None:
        super().begin(sent)
        turn = self._turn
        in_words = self.request.policy.text_form is not None
        self.repairs = (*turn.repairs, *sent.repairs, *([_IN_WORDS] if in_words else ()))
        asked = ClientRequest(
            wire=turn.dialect.client,
            nonce=token_hex(8),
            model=turn.asked,
            used_ids=turn.used_ids,
            tools=turn.tools,
            structured=turn.options.response_schema is not None,
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
        self._translation = ReplyTranslation(self._responder, self._encoder)
        if turn.stream and turn.dialect.server.counts_at_start:
            self._encoder.feed(UsageReported(Usage(input_tokens=input_estimate(turn))))

    def close(self) -> bytes:
        """The last bytes of a streamed reply that succeeded."""
        return self._encoder.close()

    def whole(self, reply: Reply) -> bytes:
        """The whole reply, for a client that does not stream or asks for it later. `reply`: as it was folded."""
        del reply  # the client was shown a part of it
        shown = fold(self._shown, Origin(dialect=self._turn.dialect.name, model=self._turn.asked))
        return self._turn.dialect.encode_reply(structs.replace(shown, model=self._turn.asked))

    def broken(self, error: SegueError) -> bytes:
        """The bytes that end a stream which broke off."""
        return self._encoder.feed(Failed(error))

    def call_ids(self) -> dict[str, str]:
        """The id of each call at the client → its canonical id."""
        known = self._responder.ids if self._responder is not None else {}
        return {client: ids.canonical for client, ids in known.items()}


@final
class ForwardedAttempt(Attempt):
    """The client's bytes go to a provider of the same wire, and its bytes come back."""

    forwarded = True

    def __init__(
        self,
        turn: ClientTurn,
        provider: ProviderAdapter,
        target: Origin,
        request: ChatRequest,
        body: bytes,
        *,
        route: str,
        repairs: tuple[Repair, ...] = (),
    ) -> None:
        """`target`: who answers. `request`: what `body` asks for."""
        super().__init__(provider, request, route=route)
        self.held = True
        """Whether its provider holds the reply if the client asks for that."""
        self.origin, self.streamed = target, turn.stream
        self.repairs = repairs
        self.headers: Mapping[str, str] = {}
        self.estimated: Usage | None = None
        self._turn = turn
        self._body = body
        server = turn.dialect.server
        self._renaming: ModelField | WholeFrames = (
            ModelField(server.reply_model_field, turn.asked, server.stream_type)
            if server.cut_frames is None
            else WholeFrames(server.cut_frames)
        )
        self._whole = b""
        self._streamed: list[bytes] = []
        """All that was sent of a reply that its client may ask for later."""
        self._ids: dict[str, str] = {}

    @property
    def wire_body(self) -> bytes:
        return self._body

    async def ask(self) -> None:
        turn, request = self._turn, self.request
        forward = self.provider.capabilities.forward
        assert forward is not None  # noqa: S101 - else nothing is forwarded there
        refers = (
            bool(self.shortcut or turn.prepared.at or turn.prepared.references)
            or turn.prepared.unread is not None
        )
        handover = hand_over(self.route, request, size=len(self._body), refers=refers)
        self.handovers.append(handover)
        failure: SegueError
        try:
            async with forward.send(
                request.model,
                self._body,
                stream=turn.stream,
                headers=request.headers,
                dialect=turn.dialect.name,
            ) as answer:
                await self._read_answer(answer, handover)
        except EnoughError:
            raise
        except SegueError as error:
            failure = error
        except Exception as error:  # whatever it is, the gateway continues
            failure = ProtocolError(f"Unexpected {type(error).__name__}.", code="unexpected")
            failure.__cause__ = error
        else:
            return
        await self._hear_last(handover.note([Failed(failure)]))

    async def _read_answer(self, answer: PushedResponse, handover: Handover) -> None:
        turn, server = self._turn, self._turn.dialect.server
        self.headers = {
            name: value
            for name, value in answer.headers.items()
            if server.returned_headers and name.startswith(server.returned_headers)
        }
        timing = ReplyTiming(turn)
        if not turn.stream:
            self._whole = await answer.read()
            last, data = turn.dialect.decode_reply(self._whole), b""
        elif isinstance(decoder := decoder_for(turn.dialect, answer.headers), WholeReplyDecoder):
            last = timing.stamp([*decoder.feed(await answer.read()), *decoder.close()])
            shown = last if server.streams_counts(turn.fields) else _without_counts(last)
            encoder = turn.dialect.new_encoder(turn.asked)
            data = b"".join([*map(encoder.feed, shown), encoder.close()])
        else:
            await answer.push(partial(self._pass_on, decoder, handover))
            last, data = decoder.close(), _in_conversation(turn, self._renaming.close())
        if (wait := self.hear(handover.note(last), data)) is not None:
            await wait

    def _pass_on(self, decoder: ReplyDecoder, handover: Handover, portion: bytes) -> Awaitable[None] | None:
        events = decoder.feed(portion)
        data = self._renaming.feed(portion, events)
        if events and type(events[-1]) is Failed:
            data = self._before_failure(data)
        data = _in_conversation(self._turn, data)
        if self._turn.prepared.kept:
            self._streamed.append(data)
        return self.hear(handover.note(events), data)

    def received(self, events: list[Event], data: bytes) -> Piece:
        return events, data

    def _before_failure(self, data: bytes) -> bytes:
        """The frames before the one that failed: an error of ours takes its place."""
        good: list[bytes] = []
        for frame in self._renaming.frames(data):
            if any(type(event) is Failed for event in self._turn.dialect.new_decoder().feed(frame)):
                break
            good.append(frame)
        return b"".join(good)

    def close(self) -> bytes:
        return b""

    def whole(self, reply: Reply) -> bytes:
        turn = self._turn
        if turn.stream:
            # By the ids that the client has, it may ask for the reply and refer to its items.
            server, name = turn.dialect.server, turn.dialect.name
            kept = server.continuations or (stored_wire(name) if server.stores_replies else None)
            sent = kept.reply_in_stream(b"".join(self._streamed)) if kept is not None else None
            shown = structs.replace(reply, model=turn.asked, repeated=turn.repeated)
            return sent or turn.dialect.encode_reply(shown)
        body, held = (
            renamed(self._whole, turn.dialect.server.reply_model_field, turn.asked),
            turn.prepared.held,
        )
        return body if held is None else stored.in_conversation(body, held.id)

    def broken(self, error: SegueError) -> bytes:
        return self._turn.dialect.server.error_frame(error)

    def call_ids(self) -> dict[str, str]:
        return self._ids

    def keep_ids(self, reply: Reply) -> None:
        """The provider's own ids are the client's too."""
        self._ids = {call.native_id: call.id for call in reply.message.calls if call.native_id}


ClientAttempt: TypeAlias = TranslatedAttempt | ForwardedAttempt
"""Both have the same for a client: `close`, `whole`, `broken` and `call_ids`."""


def _in_conversation(turn: ClientTurn, frames: bytes) -> bytes:
    """With the conversation object that the reply is added to, if there is one."""
    held = turn.prepared.held
    return frames if held is None or not frames else stored.stream_in_conversation(frames, held.id)


def _without_counts(events: list[Event]) -> list[Event]:
    return [event for event in events if type(event) is not UsageReported]


def _joined(events: list[Event]) -> list[Event]:
    """Neighbouring pieces of one block as one: who waits for the whole reply does not see them."""
    joined: list[Event] = []
    for place, same in groupby(events, _place):
        if place is None:
            joined += same
        else:
            kind, index = place
            joined.append(kind(index, "".join([piece.text for piece in same])))  # type: ignore[union-attr]
    return joined


def _place(event: Event) -> tuple[type[TextDelta | ReasoningDelta | ArgumentsDelta], int] | None:
    """What and whose piece it is; None if it is none."""
    if type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is ArgumentsDelta:
        return type(event), event.index
    return None


def forwarded_headers(turn: ClientTurn) -> dict[str, str]:
    """The client's headers that belong to its wire, for a provider of the same one."""
    prefixes = turn.dialect.server.forwarded_headers
    return {name: value for name, value in turn.request.headers.items() if name.startswith(prefixes)}
