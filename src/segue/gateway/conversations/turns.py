"""A client's request as a conversation of ours: decoded, adopted, with the originals of the replies that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct, structs

from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall
from segue.conversation.extra import Extra
from segue.conversation.json_text import parse_json
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.read_cache import ReadRequest
from segue.dialects.requests.shapes import joined_repairs, known_fields
from segue.dialects.server_side.continuations import WholeRequest
from segue.dialects.server_side.references import Reference, outer_fields
from segue.dialects.server_side.stored_wires import stored_wire
from segue.errors import InvalidRequestError, SegueError
from segue.gateway.conversations.client_messages import prepared_by
from segue.gateway.conversations.identity import given_name, known_conversation
from segue.gateway.doors.paths import Door
from segue.gateway.memory.fingerprints import HistoryFingerprints
from segue.gateway.memory.histories import Originals
from segue.gateway.memory.memory import new_conversation_id
from segue.gateway.memory.openings import Opening
from segue.gateway.memory.originals import recall_originals
from segue.gateway.requests.large_bodies import read_beside
from segue.gateway.requests.web import WebRequest
from segue.gateway.stored_objects.reply_archive import ReplyNode
from segue.gateway.stored_objects.stored_conversation import HeldConversation
from segue.providers.hosts.addresses import is_home
from segue.transcript.adopt import adopt
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from segue.conversation.blocks import Block
    from segue.dialects.dialect import Dialect
    from segue.gateway.memory.memory import Memory
    from segue.transcript.repairs import Kind


@final
class NativeHold(Struct, frozen=True):
    """A provider that holds what a request refers to, for one of its models."""

    provider: str
    model: str
    endpoint: str = ""
    """Empty if it holds it wherever it is asked."""
    reply_id: str = ""
    """Of the reply that a request continues, as the provider names it; empty if it is no reply."""
    fixed: str = ""
    """A digest of what cannot change there from one request to the next."""
    at: float = 0.0
    """Since when it is held, in seconds since 1970."""

    def is_at(self, target: Origin) -> bool:
        return (self.provider, self.model) == (target.provider, target.model) and self.endpoint in (
            "",
            target.endpoint,
        )


@final
class PreparedRequest(Struct, frozen=True):
    """The body of a chat, with what the request refers to put in."""

    fields: Mapping[str, Any]
    changed: bool = False
    """Whether the client's own bytes no longer hold all of it, so that they cannot be forwarded."""
    kept: bool = False
    """Whether the client may ask for the reply by its id."""
    reply_id: str = ""
    """The id of a reply that is made in the background; empty if its client waits for it."""
    followed: bool = False
    """Whether the client reads such a reply while it is made."""
    asks_for_compaction: bool = False
    """Whether the client wants a compacted conversation instead of a reply."""
    at: str = ""
    """The provider that holds the reply which this request continues; its bytes can be forwarded there only."""
    unread: SegueError | None = None
    """Why we cannot read the request: only a provider of its own wire may."""
    parent: str = ""
    """The id of the reply that the request continues, and that we hold; empty if there is none."""
    last: ReplyNode | None = None
    """That reply, if it was read."""
    before: int = 0
    """How many of the messages come from there."""
    whole: WholeRequest | None = None
    """The request as it was made whole; None if it came so."""
    conversation_id: str = ""
    """The conversation of that reply; empty if it is not known."""
    held: HeldConversation | None = None
    """The conversation that the turn is added to, if it is an object that we keep."""
    removed: tuple[int, ...] = ()
    """The places of items that were deleted from its conversation, among all before it."""
    references: tuple[Reference, ...] = ()
    """What the request refers to and we do not have: only another provider may hold it."""

    native: NativeHold | None = None
    """Who holds what the request refers to, although it was put in here."""
    stateless: bool = False
    """Whether no provider is asked to hold the conversation, because the last one refused that."""

    @property
    def is_part(self) -> bool:
        """Whether the request is only the end of a conversation whose beginning its provider holds."""
        return any(reference.stands_for == "history" for reference in self.references)


@final
class ClientTurn(Struct, frozen=True, kw_only=True):
    """One request for a reply, understood."""

    door: Door
    request: WebRequest
    caller: str
    asked: str
    """The model's name as the client wrote it."""
    stream: bool
    prepared: PreparedRequest
    conversation: Conversation
    tools: tuple[ToolSpec, ...]
    options: Options
    repairs: tuple[Repair, ...]
    """What was set right on the way in."""
    originals: Originals
    used_ids: frozenset[str]
    opening: Opening
    conversation_id: str
    begins: bool
    """Whether the conversation got its id just now: nobody can know it yet."""
    session: str = ""
    """The session that it is a part of; empty if its client names none."""
    writer: Origin = Origin()
    """Who evidently wrote the replies in it that we did not see."""
    read: ReadRequest | None = None
    """Its body as it was read; None if that was changed before."""
    continues: bool = False
    """Whether the request ends with results: a turn goes on."""
    bound: str = ""
    """The route that made the calls of these results; empty if it is not known, and at the start of a turn."""

    @property
    def dialect(self) -> Dialect:
        return self.door.dialect

    def is_own(self, provider: str) -> bool:
        """Whether a provider is the one that the client would ask without us: the cloud of its path, else the wire's home."""
        cloud = self.door.path.provider if self.door.path is not None else ""
        return provider == cloud if cloud else is_home(provider, self.dialect.name)

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.prepared.fields

    @property
    def whole_fields(self) -> Mapping[str, Any]:
        """The same, with all messages also where most of them were known."""
        is_part = self.read is not None and self.read.known
        return read_fields(self.request.body) if is_part else self.fields

    @property
    def repeated(self) -> Mapping[str, Any]:
        """What its reply repeats of the request; nothing on wires whose replies stand alone."""
        if not self.dialect.server.stores_replies:
            return {}
        prepared, wire = self.prepared, stored_wire(self.dialect.name)
        # Where the request was made whole, its fields no longer say what it continues.
        if prepared.held is not None:
            return wire.repeated(self.fields, "", prepared.held.id)
        return wire.repeated(self.fields, prepared.parent)

    def messages_in(self, fields: Mapping[str, Any]) -> list[Any]:
        """The messages among the fields of a request, each as a client of its wire could send it."""
        given = fields.get(self.dialect.messages_field)
        if self.dialect.server.stores_replies:
            return stored_wire(self.dialect.name).input_items(fields)
        return list(given or ())

    @property
    def changed(self) -> bool:
        return self.prepared.changed

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return max(self.request.weight, len(self.request.body))

    @property
    def strict(self) -> bool:
        """Whether the client refuses losses, all or some."""
        return self._strictness() not in ("", "0", "false", "no")

    def refused(self, losses: Sequence[Repair]) -> list[Repair]:
        """Those of the losses that the client refuses: all of them, or those of the kinds that it lists."""
        if self._strictness() in ("1", "true", "yes"):
            return list(losses)
        kinds = {kind.strip() for kind in self._strictness().split(",")}
        return [loss for loss in losses if loss.kind in kinds]

    def _strictness(self) -> str:
        return self.request.headers.get("x-segue-strict", "").lower()

    @property
    def last_route(self) -> str:
        """Of the last reply in this conversation; empty if it is not known."""
        last = self.originals.last
        return last.route if last is not None else ""

    def conversation_at(self, target: Origin) -> Conversation:
        """The conversation for a provider of the client's own wire: its forwarded replies in the form in which it got them back. To
        another of its models they are not its own: what only their maker can read is not sent, nor what depends on that."""
        if not self.originals.returned:
            return self.conversation
        messages = [*self.conversation.messages]
        for index, returned in self.originals.returned.get((target.provider, target.model), {}).items():
            messages[index] = returned
        return structs.replace(self.conversation, messages=tuple(messages))

    @property
    def prefilled(self) -> bool:
        """Whether the client wrote the beginning of the reply itself."""
        last = self.conversation.messages[-1] if self.conversation.messages else None
        return last is not None and last.speaker == "model" and not last.calls

    @property
    def has_images(self) -> bool:
        return self.originals.has_images


def read_fields(body: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidRequestError(
            "The body of the request is not a JSON object.",
            code="not_json",
            hint="Send JSON with content-type: application/json.",
        )
    return value


def model_of(door: Door, fields: Mapping[str, Any]) -> str:
    """The model's name as the client wrote it, or that of whoever answers instead; empty if it wrote none."""
    server = door.dialect.server
    field = server.model_field
    name = fields.get(field) if field else door.params.get("model") or fields.get("model")
    if name is None and server.agent_field:
        name = fields.get(server.agent_field)
    return name.removeprefix("models/" if not field else "") if isinstance(name, str) else ""


def streams(door: Door, fields: Mapping[str, Any]) -> bool:
    server = door.dialect.server
    if door.stream is not None or not server.stream_field:
        return bool(door.stream)
    asked = fields.get(server.stream_field)
    return asked if isinstance(asked, bool) else server.streams_by_default


def _read(dialect: Dialect, fields: Mapping[str, Any], writer: Origin) -> ReadRequest:
    # Who made the replies that we did not see is known as far as the client's name for the model is a real one.
    decoded = dialect.decode_request(dialect.with_model(fields, writer.model))
    adoption = adopt(
        prepared_by(writer, dialect.name)(decoded.messages),
        system=decoded.system,
        dialect=dialect.name,
        rules=dialect.rules,
    )
    return ReadRequest(
        fields=dict(fields),
        conversation=adoption.conversation,
        tools=decoded.tools,
        options=decoded.options,
        repairs=(*decoded.repairs, *adoption.repairs),
        continues=decoded.ends_with_results,
    )


async def read_turn(
    door: Door,
    request: WebRequest,
    prepared: PreparedRequest,
    *,
    caller: str,
    memory: Memory,
    writer: Origin,
    read: ReadRequest | None = None,
) -> ClientTurn:
    """Raises TranscriptError with a path where it is no request of this wire.

    `writer`: who evidently wrote the replies that we did not see. `read`: the request, if it was read before.
    """
    dialect, fields = door.dialect, prepared.fields
    as_it_came = read
    if read is None:
        read = await read_beside(request.weight, partial(_read, dialect, fields, writer))
    messages = read.conversation.messages
    asked = model_of(door, fields)
    named = fields if prepared.held is None else {**fields, "conversation": prepared.held.id}
    name = given_name(dialect.server, request.headers, named)
    opening = Opening(name, dialect, asked, read.conversation, read.tools)
    size = max(request.weight, len(request.body))
    originals = await recall_originals(memory, caller, messages, opening=opening, size=size)
    restored = _without_deleted(messages, originals, dialect.name) if prepared.removed else originals.messages
    conversation = structs.replace(read.conversation, messages=restored)
    known_as = "" if opening.name.exact else prepared.conversation_id
    known_as = known_as or await known_conversation(memory, caller, messages, originals, opening)
    return ClientTurn(
        door=door,
        request=request,
        caller=caller,
        writer=writer,
        asked=asked,
        stream=streams(door, fields),
        prepared=prepared,
        conversation=conversation,
        tools=read.tools,
        options=read.options,
        repairs=read.repairs,
        read=as_it_came,
        originals=originals,
        used_ids=originals.call_ids,
        conversation_id=known_as or new_conversation_id(),
        begins=not known_as,
        session=memory.session_id(caller, name.session),
        opening=opening,
        continues=read.continues,
        bound=originals.last.route if read.continues and originals.last is not None else "",
    )


def _without_deleted(messages: Sequence[Message], originals: Originals, dialect: str) -> tuple[Message, ...]:
    """The history of a conversation object of which items were deleted, with its originals. Thoughts on its own wire were items of it:
    one that is not there any more was deleted, and does not come back with the original."""
    restored = [*originals.messages]
    for index in originals.replies:
        made = restored[index]
        if made.origin is None or made.origin.dialect != dialect:
            continue
        there = [_payload(block) for block in messages[index].blocks if type(block) is Reasoning]
        if len(there) < sum(type(block) is Reasoning for block in made.blocks):
            blocks = [
                block for block in made.blocks if type(block) is not Reasoning or _payload(block) in there
            ]
            restored[index] = structs.replace(made, blocks=tuple(blocks))
    return tuple(restored)


def _payload(thought: Reasoning) -> str:
    return "" if thought.seal is None else thought.seal.payload


def unread_turn(
    door: Door,
    request: WebRequest,
    prepared: PreparedRequest,
    error: SegueError,
    *,
    caller: str,
    memory: Memory,
) -> ClientTurn:
    """A request that we cannot read, because of this `error`. Its wire may be newer than we are: whoever serves that wire gets
    it as it came, and all others get nothing."""
    asked = model_of(door, prepared.fields)
    name = given_name(door.dialect.server, request.headers, prepared.fields)
    opening = Opening(name, door.dialect, asked, Conversation(), ())
    key = name.digest if name.exact else opening.digest.hex()
    return ClientTurn(
        door=door,
        request=request,
        caller=caller,
        asked=asked,
        stream=streams(door, prepared.fields),
        prepared=structs.replace(prepared, unread=error),
        conversation=Conversation(),
        tools=(),
        options=Options(),
        repairs=(),
        originals=Originals((), HistoryFingerprints()),
        used_ids=frozenset(),
        conversation_id=memory.conversation_id(caller, key) if name else new_conversation_id(),
        begins=not name,
        session=memory.session_id(caller, name.session),
        opening=opening,
    )


async def plain_turn(turn: ClientTurn, memory: Memory, *, planned: bool) -> ClientTurn | None:
    """The turn without what only its own provider, account and model may know; None if that would change nothing.

    For a second try after a refusal: fields that we do not know, seals that we did not see being made, and settings of the
    wire's own. `planned`: the first try sent the client's own bytes, so planning them is a change too.
    """
    known = await _known_turn(turn, memory)
    planned, turn = planned or known is not turn, known
    betas = turn.dialect.server.beta_headers
    headers = {name: value for name, value in turn.request.headers.items() if not name.startswith(betas)}
    repairs = _dropped(turn)
    if turn.prepared.unread is not None or not (repairs or planned):
        return None
    messages = [*turn.conversation.messages]
    for index in _unseen(turn):
        messages[index] = _without_seals(messages[index])
    return structs.replace(
        turn,
        request=structs.replace(turn.request, headers=headers),
        conversation=structs.replace(turn.conversation, messages=tuple(messages)),
        options=structs.replace(turn.options, own=_only_references(turn)),
        prepared=structs.replace(turn.prepared, changed=True),
        repairs=(*turn.repairs, *repairs),
    )


async def _known_turn(turn: ClientTurn, memory: Memory) -> ClientTurn:
    """The turn as it is read without what we do not know; the very same if there is nothing of the kind."""
    dialect, prepared = turn.dialect, turn.prepared
    fields, repairs = known_fields(
        dialect.shape, prepared.fields if prepared.changed else read_fields(turn.request.body), dialect.name
    )
    if not repairs:
        return turn
    read = _read(dialect, fields, turn.writer)
    opening = Opening(turn.opening.name, dialect, turn.asked, read.conversation, read.tools)
    originals = await recall_originals(
        memory, turn.caller, read.conversation.messages, opening=opening, size=len(turn.request.body)
    )
    return structs.replace(
        turn,
        prepared=structs.replace(prepared, fields=fields, changed=True),
        conversation=structs.replace(read.conversation, messages=originals.messages),
        tools=read.tools,
        options=read.options,
        repairs=joined_repairs(repairs, read.repairs),
        originals=originals,
        read=None,
        opening=opening,
    )


def _dropped(turn: ClientTurn) -> list[Repair]:
    """What the plain turn is without."""
    server, why = turn.dialect.server, "the provider refused the request with it"
    own = turn.options.own
    betas = [name for name in turn.request.headers if name.startswith(server.beta_headers)]
    kept = _only_references(turn)
    fields = (
        [name for name in own.fields if kept is None or name not in kept.fields] if own is not None else []
    )
    repairs = [Repair("option_not_sent", turn.dialect.name, name, decision=why) for name in (*betas, *fields)]
    if own is not None and own.container is not None and own.container.fields:
        repairs.append(Repair("fields_dropped", turn.dialect.name, "system", decision=why))
    for index in _unseen(turn):
        for block in turn.conversation.messages[index].blocks:
            if _is_sealed(block):
                kind: Kind = "reasoning_dropped" if type(block) is Reasoning else "seal_dropped"
                repairs.append(Repair(kind, turn.dialect.name, f"messages[{index}]", decision=why))
    return repairs


def _unseen(turn: ClientTurn) -> list[int]:
    """The indexes of messages whose seals we did not see being made: they are no replies of ours."""
    return [
        index
        for index, message in enumerate(turn.conversation.messages)
        if message.speaker == "model" and index not in turn.originals.replies
    ]


def _only_references(turn: ClientTurn) -> Extra | None:
    """Of the wire's own fields those that stand for content: without them another request would be sent."""
    own, names = turn.options.own, outer_fields(turn.dialect.server.references)
    fields = {name: value for name, value in own.fields.items() if name in names} if own is not None else {}
    return Extra(turn.dialect.name, fields) if fields else None


def _is_sealed(block: Block) -> bool:
    return getattr(block, "seal", None) is not None


def _without_seals(message: Message) -> Message:
    if not any(map(_is_sealed, message.blocks)):
        return message
    blocks = [
        structs.replace(block, seal=None) if not isinstance(block, Reasoning) and _is_sealed(block) else block
        for block in message.blocks
        if not _is_sealed(block) or _has_content(block)
    ]
    return structs.replace(message, blocks=tuple(blocks))


def _has_content(block: Block) -> bool:
    """Whether a block is content also without its seal."""
    return type(block) is ToolCall or (type(block) is Text and bool(block.text.strip()))
