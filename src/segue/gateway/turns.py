"""A client's request as a conversation of ours: decoded, adopted, with the originals of the replies that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct, structs

from segue.conversation.blocks import Reasoning, ToolCall, ToolResult
from segue.conversation.json_text import parse_json
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.read_cache import ReadRequest
from segue.errors import InvalidRequestError, SegueError
from segue.gateway.doors import Door
from segue.gateway.large_bodies import read_beside
from segue.gateway.memory.fingerprints import fingerprint_of
from segue.gateway.memory.memory import is_capsule, new_conversation_id
from segue.gateway.memory.originals import Originals, recall_originals
from segue.gateway.web import WebRequest
from segue.transcript.adopt import adopt
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block
    from segue.dialects.dialect import Dialect
    from segue.gateway.memory.memory import Memory
    from segue.transcript.repairs import Kind

_LOOK_BACK: Final = 16
"""How many messages of the operator may follow the results that a request ends with."""


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
    unknown: SegueError | None = None
    """The request refers to a reply, or an item of one, that we do not have: only the provider that made it may know it."""


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
    conversation_id: str
    begins: bool
    """Whether the conversation got its id just now: nobody can know it yet."""
    read: ReadRequest | None = None
    """Its body as it was read; None if that was changed before."""
    bound: str = ""
    """The route that made the calls whose results this request ends with; empty at the start of a turn."""

    @property
    def dialect(self) -> Dialect:
        return self.door.dialect

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.prepared.fields

    @property
    def changed(self) -> bool:
        return self.prepared.changed

    @property
    def strict(self) -> bool:
        """Whether the client refuses losses."""
        return self.request.headers.get("x-segue-strict", "").lower() in ("1", "true", "yes")

    @property
    def last_route(self) -> str:
        """Of the last reply in this conversation; empty if it is not known."""
        last = self.originals.last
        return last.route if last is not None else ""

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
    """The model's name as the client wrote it; empty if it wrote none."""
    field = door.dialect.server.model_field
    name = fields.get(field) if field else door.params.get("model")
    return name if isinstance(name, str) else ""


def streams(door: Door, fields: Mapping[str, Any]) -> bool:
    server = door.dialect.server
    if door.stream is not None or not server.stream_field:
        return bool(door.stream)
    asked = fields.get(server.stream_field)
    return asked if isinstance(asked, bool) else server.streams_by_default


def session_of(door: Door, request: WebRequest, fields: Mapping[str, Any]) -> str:
    """What the client sends to tell its sessions apart; empty if it sends nothing of the kind."""
    server = door.dialect.server
    for name in server.session_headers:
        if named := request.headers.get(name):
            return named
    for name in server.session_fields:
        if isinstance(named := fields.get(name), str) and named:
            return named
    return ""


def _read(dialect: Dialect, fields: Mapping[str, Any], native_model: str) -> ReadRequest:
    field = dialect.server.model_field
    # Who made the replies that we did not see is known as far as the client's name for the model is a real one.
    decoded = dialect.decode_request({**fields, field: native_model} if field else fields)
    adoption = adopt(
        without_capsules(decoded.messages),
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
    )


async def read_turn(
    door: Door,
    request: WebRequest,
    prepared: PreparedRequest,
    *,
    caller: str,
    memory: Memory,
    native_model: str = "",
    read: ReadRequest | None = None,
) -> ClientTurn:
    """Raises TranscriptError with a path where it is no request of this wire.

    `native_model`: the name of the model at the client's own provider; empty if that is not known. `read`: the request, if
    it was read before.
    """
    dialect, fields = door.dialect, prepared.fields
    as_it_came = read
    if read is None:
        read = await read_beside(request.weight, partial(_read, dialect, fields, native_model))
    messages = read.conversation.messages
    session = session_of(door, request, fields)
    size = max(request.weight, len(request.body))
    originals = await recall_originals(memory, caller, messages, session=session, size=size)
    conversation = structs.replace(read.conversation, messages=originals.messages)
    # A history whose messages were adopted as they came ends with what the client wrote last.
    ends_with_tool = as_it_came is not None and as_it_came.head > 0 and messages[-1].speaker == "tool"
    known_as = _conversation_of(memory, caller, session, messages, originals)
    continues = originals.last is not None and (ends_with_tool or _ends_with_results(dialect, fields))
    return ClientTurn(
        door=door,
        request=request,
        caller=caller,
        asked=model_of(door, fields),
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
        bound=originals.last.route if continues and originals.last is not None else "",
    )


def _conversation_of(
    memory: Memory, caller: str, session: str, messages: Sequence[Message], originals: Originals
) -> str:
    """By the client's own name for it, else by the replies that it returns. Empty if it begins without a name: others may
    begin with the same words."""
    if not session and originals.replies:
        replies = reversed(originals.replies.values())
        known = next((reply.conversation for reply in replies if reply.conversation), "")
        if known:
            return known
    if not session and all(message.speaker != "model" for message in messages):
        return ""
    return memory.conversation_id(caller, session or _first_message(messages))


def plain_turn(turn: ClientTurn, *, planned: bool) -> ClientTurn | None:
    """The turn without what only its own provider, account and model may know; None if that would change nothing.

    For a second try after a refusal: seals that we did not see being made, and fields of the wire's own. `planned`: the
    first try sent the client's own bytes, so planning them is a change too.
    """
    betas = turn.dialect.server.beta_headers
    headers = {name: value for name, value in turn.request.headers.items() if not name.startswith(betas)}
    repairs = _dropped(turn)
    if not (repairs or planned):
        return None
    messages = tuple(_without_unknown_seals(message) for message in turn.conversation.messages)
    return structs.replace(
        turn,
        request=structs.replace(turn.request, headers=headers),
        conversation=structs.replace(turn.conversation, messages=messages),
        options=structs.replace(turn.options, own=None),
        prepared=structs.replace(turn.prepared, changed=True),
        repairs=(*turn.repairs, *repairs),
    )


def _dropped(turn: ClientTurn) -> list[Repair]:
    """What the plain turn is without."""
    server, why = turn.dialect.server, "the provider refused the request with it"
    own = turn.options.own
    betas = [name for name in turn.request.headers if name.startswith(server.beta_headers)]
    fields = list(own.fields) if own is not None else []
    repairs = [Repair("option_not_sent", turn.dialect.name, name, decision=why) for name in (*betas, *fields)]
    if own is not None and own.container is not None and own.container.fields:
        repairs.append(Repair("fields_dropped", turn.dialect.name, "system", decision=why))
    for index, message in enumerate(turn.conversation.messages):
        for block in message.blocks:
            if message.speaker == "model" and _is_unknown(block):
                kind: Kind = "reasoning_dropped" if type(block) is Reasoning else "seal_dropped"
                repairs.append(Repair(kind, turn.dialect.name, f"messages[{index}]", decision=why))
    return repairs


def _is_unknown(block: Block) -> bool:
    """Whether a block has a seal that we did not see being made."""
    seal = getattr(block, "seal", None)
    return seal is not None and not seal.origin.provider


def _without_unknown_seals(message: Message) -> Message:
    if message.speaker != "model" or not any(map(_is_unknown, message.blocks)):
        return message
    blocks = [
        structs.replace(block, seal=None) if type(block) is ToolCall and _is_unknown(block) else block
        for block in message.blocks
        if type(block) is ToolCall or not _is_unknown(block)
    ]
    return structs.replace(message, blocks=tuple(blocks))


def without_capsules(messages: Sequence[Message]) -> Sequence[Message]:
    """Reasoning that we showed under a seal of our own: no provider can open it."""
    # Written out, since each message of each request comes here.
    showing = [
        index
        for index, message in enumerate(messages)
        if message.speaker == "model"
        for block in message.blocks
        if type(block) is Reasoning and block.seal is not None and is_capsule(block.seal.payload)
    ]
    if not showing:
        return messages
    changed = [*messages]
    for index in showing:
        blocks = [
            structs.replace(block, seal=None) if type(block) is Reasoning else block
            for block in messages[index].blocks
        ]
        changed[index] = structs.replace(messages[index], blocks=tuple(blocks))
    return changed


def _ends_with_results(dialect: Dialect, fields: Mapping[str, Any]) -> bool:
    """Whether a turn goes on: what the client wrote last holds results. Notes of the operator may follow them."""
    written = fields.get(dialect.messages_field)
    if not isinstance(written, list):
        return False
    for last in written[: -_LOOK_BACK - 1 : -1]:
        decoded = dialect.decode_request({dialect.messages_field: [last]}).messages
        if any(type(block) is ToolResult for message in decoded for block in message.blocks):
            return True
        if not all(message.instruction for message in decoded):
            return False
    return False


def _first_message(messages: Sequence[Message]) -> str:
    """A stand-in for the name of a session: how the conversation begins."""
    first = next((message for message in messages if message.speaker == "user"), None)
    return fingerprint_of((first,)).hex() if first is not None else ""
