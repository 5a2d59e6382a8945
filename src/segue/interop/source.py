"""A request as it was found: its dialect, its messages, and what else it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from msgspec import Struct, structs

from segue.conversation.document import conversation_in, read_document
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS, proper_name, recognise
from segue.dialects.requests.shapes import joined_repairs, known_fields
from segue.errors import TranscriptError, UsageError
from segue.providers.models.cards import dialect_of_model
from segue.transcript.adopt import adopt
from segue.transcript.repairs import Repair

CONVERSATION: Final = "conversation"
"""Our own form, by the name it has beside the dialects."""
AUTO: Final = "auto"


@final
class SourceRequest(Struct, frozen=True, kw_only=True):
    """A request in our words. `messages` are as they were decoded; a document's are a conversation already."""

    dialect: str
    """The wire it came from; empty for a document without one."""
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    conversation: Conversation | None = None
    ledger: Ledger | None = None
    body: Mapping[str, Any] | None = None
    """The request body it was read from, where there is one."""
    repairs: tuple[Repair, ...] = ()
    """What was not read, because its own provider refuses it."""
    form: str = ""
    """What kind of file it was, for people; empty for a plain request."""
    bare: bool = False
    """Whether it was a list of messages without a request around it."""
    session: bool = False
    """Whether it is a client's session file: the next request adds a user message to it."""

    @property
    def message_count(self) -> int:
        """How many messages were found; adopting them may split or merge some."""
        return len(self.messages)

    def decoded_count(self, parts: int) -> int:
        """How many messages the first parts of the body are decoded to."""
        dialect, body = DIALECTS[self.dialect], self.body or {}
        field = dialect.messages_field
        return len(dialect.decode_request({**body, field: body[field][:parts]}).messages)

    def for_wire(self, to: str) -> SourceRequest:
        """As it is written for its own wire, whose provider may refuse what we do not know: read again without that."""
        if self.body is None or self.dialect != to:
            return self
        dialect = DIALECTS[to]
        body, repairs = known_fields(dialect.shape, self.body, to)
        if not repairs:
            return self
        read = dialect.decode_request(body)
        return structs.replace(
            self,
            messages=read.messages,
            system=read.system,
            tools=read.tools,
            options=read.options,
            body=body,
            repairs=joined_repairs(repairs, read.repairs),
        )

    def adopted(self) -> tuple[Conversation, tuple[Repair, ...]]:
        """The conversation, and what was repaired in reading and adopting it."""
        if self.conversation is not None:
            return self.conversation, self.repairs
        came = DIALECTS.get(self.dialect)
        rules = came.rules if came is not None else None
        adoption = adopt(self.messages, system=self.system, dialect=self.dialect, rules=rules)
        return adoption.conversation, (*self.repairs, *adoption.repairs)


def target_name(name: str) -> str:
    """A dialect's name or `conversation`, properly spelt."""
    return CONVERSATION if name.strip().lower() == CONVERSATION else proper_name(name)


def read_request(request: object, dialect: str = AUTO, *, model: str = "", to: str = "") -> SourceRequest:
    """A parsed request body, bare list of messages, or document.

    `model` is the one the request is going to be sent to: a body of the very same dialect that names no model, as
    Gemini's never do, is taken to come from it.
    """
    if (
        isinstance(request, Mapping)
        and request.get("segue") == CONVERSATION
        and dialect in (AUTO, CONVERSATION)
    ):
        return _read_own(request)
    if dialect == CONVERSATION:
        raise TranscriptError(
            "This is not a segue conversation.",
            code="not_a_conversation",
            hint='A conversation is a JSON object with "segue": "conversation".',
        )
    body = _as_body(request, dialect)
    name = _name_of(body, dialect)
    if model and name == to and not body.get("model"):
        body = {**body, "model": model}
    decoded = DIALECTS[name].decode_request(body)
    return SourceRequest(
        dialect=name,
        messages=decoded.messages,
        system=decoded.system,
        tools=decoded.tools,
        options=decoded.options,
        body=body,
        repairs=decoded.repairs,
        bare=isinstance(request, list),
    )


def _read_own(fields: Mapping[str, Any]) -> SourceRequest:
    document = read_document(dict(fields))
    conversation, ledger = conversation_in(document)
    return SourceRequest(
        dialect=document.dialect,
        messages=conversation.messages,
        system=conversation.system,
        tools=document.tools,
        options=document.options,
        conversation=conversation,
        ledger=ledger,
        form="conversation",
    )


def _as_body(request: object, dialect: str) -> Mapping[str, Any]:
    if isinstance(request, Mapping):
        return request
    if not isinstance(request, list):
        raise TranscriptError(
            f"A request is a JSON object, or a list of messages; this is {_kind(request)}.",
            code="not_a_request",
            hint="Give the body that is sent to the provider.",
        )
    return {_list_key(request, dialect): request}


def _kind(value: object) -> str:
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


_ITEM_TYPES: Final = ("function_call", "function_call_output", "reasoning", "message", "item_reference")


def _list_key(messages: list[Any], dialect: str) -> str:
    """The field in which a bare list of messages is sent."""
    if dialect != AUTO:
        return DIALECTS[proper_name(dialect)].messages_field
    for message in messages:
        if isinstance(message, Mapping):
            if "parts" in message:
                return "contents"
            # A whole reply of Messages calls itself a message, too, and says why it stopped.
            if message.get("type") in _ITEM_TYPES and "stop_reason" not in message:
                return "input"
    return "messages"


def _name_of(body: Mapping[str, Any], dialect: str) -> str:
    if dialect != AUTO:
        return proper_name(dialect)
    found = recognise(body)
    if not found:
        raise UsageError(
            "No dialect recognises this request.",
            code="unrecognised",
            hint="Name it: --from openai_chat, anthropic, gemini and so on.",
        )
    # Many servers speak the Chat wire, and only the model's name shows which.
    hinted = dialect_of_model(body["model"]) if isinstance(body.get("model"), str) else ""
    if found == "openai_chat" and hinted and DIALECTS[hinted].recognises(body) > 0:
        return hinted
    return found
