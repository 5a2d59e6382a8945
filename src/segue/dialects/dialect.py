"""What a dialect is: a record of pure functions for both sides of one wire.

As a client of the provider we encode requests and decode replies and errors; as a server of its protocol we
decode requests and encode replies and errors. A whole reply and a streamed one give the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Text, ToolResult
from segue.conversation.events import Event, ReasoningDelta, Reply, TextDelta
from segue.conversation.message import Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.requests.shapes import Shape
from segue.dialects.server_side.wire_server import ServerFacts
from segue.errors import ProviderError, SegueError
from segue.transcript.client_wire import ClientWire
from segue.transcript.repairs import Repair
from segue.transcript.rules import Rules

if TYPE_CHECKING:
    from segue.dialects.card import ModelCard
    from segue.dialects.streams.chunk_template import ChunkTemplate
    from segue.transcript.steps import Transcript

_ENCODER = msgspec.json.Encoder()


@final
class EncodedRequest(Struct, frozen=True):
    """The fields of a request body, and what of tools and options could not be sent to the target."""

    fields: dict[str, Any]
    repairs: tuple[Repair, ...] = ()
    before_reply: int = 0
    """How many of the messages are before the last reply of the model; 0 if there is none."""
    is_linked: bool = False
    """Whether what is sent of some step depends on the steps before it."""

    @property
    def body(self) -> bytes:
        return _ENCODER.encode(self.fields)


@final
class DecodedRequest(Struct, frozen=True, kw_only=True):
    """A foreign request: its messages are not adopted yet, so calls and results bear native ids only."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    leading: int = 0
    """How many of the messages, as they came, are part of the system prompt."""
    starts: tuple[int, ...] = ()
    """Of each message, the index of the received message in which it begins; empty if each came as one, behind the leading ones."""
    repairs: tuple[Repair, ...] = ()
    """What the wire's own provider would refuse, and was not read."""
    is_linked: bool = False
    """Whether something else than messages stands among them, so that no part of the request can be read by itself."""

    @property
    def ends_with_results(self) -> bool:
        """Whether a turn continues: the last message holds results. Notes of the operator or of the client may follow them.

        Where the user cancelled a turn, clients of some wires write the results of its calls and the next prompt into one message.
        So a text behind a failed result begins a turn, unless it has the form of a client's note (`<system-reminder>`).
        """
        starts = self.starts or range(len(self.messages))
        is_written = False
        for at in range(len(self.messages) - 1, -1, -1):
            message = self.messages[at]
            results = [block for block in message.blocks if type(block) is ToolResult]
            if results:
                return not (is_written and any(result.error is not None for result in results))
            if message.instruction:
                continue
            if at == 0 or starts[at - 1] != starts[at]:
                return False
            is_written = is_written or any(
                type(block) is Text and not block.text.lstrip().startswith("<") for block in message.blocks
            )
        return False


class RequestEncoder(Protocol):
    """Makes a request body of a transcript, tools and options."""

    def __call__(
        self,
        transcript: Transcript,
        tools: tuple[ToolSpec, ...],
        options: Options,
        card: ModelCard,
        *,
        after: int = 0,
    ) -> EncodedRequest:
        """`after`: omit the first steps. It must stand before a model's step, where a message begins."""
        ...


class ReplyDecoder(Protocol):
    """A streamed reply, bytes in and events out. Where the bytes are cut makes no difference.

    A frame that cannot be read ends the reply with a failure, because its content would be missing.
    """

    def feed(self, data: bytes) -> list[Event]: ...

    def close(self) -> list[Event]:
        """The stream is over: the events that are left, and a failure if the reply had no end."""
        ...


class ReplyEncoder(Protocol):
    """The other way round: events in, the provider's stream out."""

    def feed(self, event: Event) -> bytes: ...

    def template(self, event: TextDelta | ReasoningDelta) -> ChunkTemplate | None:
        """How more of this event's block is written until another event is fed; None if only `feed` knows."""
        ...

    def close(self) -> bytes: ...


@final
class Dialect(Struct, frozen=True, kw_only=True):
    """One wire format, both directions."""

    name: str
    rules: Rules
    client: ClientWire
    """What a client of this wire can be given."""
    encode_request: RequestEncoder
    messages_field: str = "messages"
    """The field of a request that holds the messages."""
    decode_request: Callable[[Mapping[str, Any]], DecodedRequest]
    """From the parsed JSON body; raises TranscriptError with a path where it is no such request."""
    shape: Shape
    """What the wire takes in a request."""
    recognises: Callable[[Mapping[str, Any]], float]
    """How sure one may be, from 0 to 1, that this JSON object is a request of this dialect."""
    decode_reply: Callable[[bytes], list[Event]]
    encode_reply: Callable[[Reply], bytes]
    new_decoder: Callable[[], ReplyDecoder]
    new_encoder: Callable[[str], ReplyEncoder]
    """Takes the model's name that the stream should report."""
    decode_error: Callable[[int, Mapping[str, str], bytes], ProviderError]
    """Total: any status, headers (lower-case names) and body become an error with a remedy."""
    encode_error: Callable[[SegueError], tuple[int, bytes]]
    server: ServerFacts
    """Paths, headers and lists of a server of this wire."""
    takes_schema: Callable[[dict[str, Any]], bool] = lambda _schema: True
    """Whether the wire can hold an answer to this JSON Schema, if the model can."""

    def with_model(self, fields: Mapping[str, Any], model: str) -> dict[str, Any]:
        """The body of a request with another model; where the address names it, with one, if the body names none."""
        field = self.server.model_field
        return {**fields, field: model} if field else {"model": model, **fields}
