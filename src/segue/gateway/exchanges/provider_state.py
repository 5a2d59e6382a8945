"""Conversations that a provider holds because their client asks for it: what is sent of them, and when all of it is.

What a provider holds is a shortcut and never the source: everything is planned whole, and what is new is cut from that. Any doubt
sends the whole.
"""

from __future__ import annotations

from hashlib import blake2b
from time import time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, structs

from segue.conversation.blocks import ToolCall
from segue.dialects.caches.tool_cache import work_out_once

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Message
    from segue.dialects.server_side.wire_server import ProviderState
    from segue.gateway.conversations.turns import ClientTurn
    from segue.providers.adapter import ChatRequest


def with_state(turn: ClientTurn, request: ChatRequest, target: Origin) -> ChatRequest:
    """The request as one that the target is to hold; and if it holds all before what is new, as one that sends only that."""
    state = turn.dialect.server.state
    if state is None:
        return request
    native = turn.prepared.native
    continues = native is not None and native.is_at(target) and _is_sure(turn, request, state)
    fields = state.going_on(native.reply_id) if native is not None and continues else state.begin
    options = structs.replace(request.options, extra={**(request.options.extra or {}), **fields})
    headers = request.headers
    if state.header is not None:
        name, value = state.header
        given = [one.strip() for one in headers.get(name, "").split(",") if one.strip()]
        headers = {**headers, name: ",".join(dict.fromkeys((*given, value)))}
    return structs.replace(request, options=options, headers=headers, since_reply=continues)


def body_with_state(turn: ClientTurn, request: ChatRequest, model: str) -> bytes:
    """The bytes of a client that sends everything, as such a request: with what is new alone, if that is what is sent. `model`: its
    name at the provider."""
    server, field = turn.dialect.server, turn.dialect.messages_field
    state = server.state
    extra = request.options.extra or {}
    if state is not None and request.since_reply and turn.prepared.whole is not None:
        made = turn.prepared.whole
        fields = {name: value for name, value in made.fields.items() if name not in state.left_out}
        fields[field] = Raw(b"[" + b",".join(made.new) + b"]")
    else:
        fields = _FIELDS.decode(turn.request.body)
    for name in (server.model_field, server.agent_field):
        if name in fields:
            fields[name] = Raw(msgspec.json.encode(model))
    asked = (*state.begin, *state.going_on("")) if state is not None else ()
    return msgspec.json.encode({**fields, **{name: extra[name] for name in asked if name in extra}})


def _is_sure(turn: ClientTurn, request: ChatRequest, state: ProviderState) -> bool:
    """Whether what the provider holds is surely what it would be sent: its last reply is the last one of the conversation, as it
    was made, and nothing was set right on the way."""
    native, messages, originals = turn.prepared.native, turn.conversation.messages, turn.originals
    if native is None or not native.reply_id or not 0.0 <= time() - native.at < state.life or turn.repairs:
        return False
    if state.fixed and native.fixed != fixed_settings(request):
        return False
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].speaker == "model"), None)
    if last is None or last + 1 == len(messages):
        return False
    remembered = originals.replies.get(last)
    return remembered is not None and not remembered.broken and _is_same(messages[last], remembered.message)


def _is_same(one: Message, other: Message) -> bool:
    """Whether two messages say the same, with the same seals, however their client wrote them."""
    if one is other:
        return True
    return one.origin == other.origin and [*map(_said, one.blocks)] == [*map(_said, other.blocks)]


def _said(block: Block) -> Block:
    return structs.replace(block, extra=None, **({"id": ""} if type(block) is ToolCall else {}))


def fixed_settings(request: ChatRequest) -> str:
    """A digest of the settings that some providers do not let change while they hold a conversation (THR-04)."""
    tools = request.tools
    written = work_out_once(tools, "settings", lambda: blake2b(msgspec.json.encode(tools)).digest())
    said = msgspec.json.encode((request.model, request.conversation.system, request.options.tool_choice))
    return blake2b(written + said, digest_size=16).hexdigest()
