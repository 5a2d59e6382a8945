"""A conversation as a versioned JSON document.

Reading what was written gives the same conversation back. Values that JSON cannot express (cycles, bytes, NaN) are
written in a form it can; everything else survives exactly, lone surrogates included. A document of a newer version is
refused and left as it is.
"""

from __future__ import annotations

import json
from operator import is_
from typing import Any, Final, Literal, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Block, ToolCall, ToolResult
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.json_safe import ensure_json_safe
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.errors import TranscriptError

VERSION: Final = 1
SCHEMA_ID: Final = "urn:segue:conversation:1"


@final
class Document(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The outermost object."""

    segue: Literal["conversation"]
    version: int
    messages: tuple[Message, ...]
    system: str = ""
    minted: int = 0
    ledger: tuple[Interaction, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """With `options`: what a request holds beside its conversation, so that the request can be made again in full."""
    options: Options = Options()
    dialect: str = ""
    """The dialect of the request, to which `options.model` and `options.extra` belong."""


_ENCODER = msgspec.json.Encoder()


def encode_document(
    conversation: Conversation,
    ledger: Ledger | None = None,
    *,
    tools: tuple[ToolSpec, ...] = (),
    options: Options | None = None,
    dialect: str = "",
) -> bytes:
    """The document of a conversation, and of its ledger if there is one."""
    document = Document(
        "conversation",
        VERSION,
        tuple(plain_message(message) for message in conversation.messages),
        conversation.system,
        conversation.minted,
        tuple(plain_interaction(interaction) for interaction in ledger.values()) if ledger else (),
        tuple(
            structs.replace(tool, parameters=ensure_json_safe(tool.parameters, any_text=True))
            for tool in tools
        ),
        plain_options(options or Options()),
        dialect,
    )
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        # Lone surrogates: the standard library can write them, if slowly.
        return json.dumps(msgspec.to_builtins(document), separators=(",", ":")).encode()


def decode_document(data: bytes | str) -> tuple[Conversation, Ledger | None]:
    """The conversation in a document, and its ledger if it holds one."""
    return conversation_in(read_document(_parse(data)))


def conversation_in(document: Document) -> tuple[Conversation, Ledger | None]:
    """What a document holds of a session."""
    for index, interaction in enumerate(document.ledger):
        if not interaction.call.id:
            raise TranscriptError(
                "An interaction of the ledger has no call id.",
                code="bad_document",
                path=f"ledger[{index}].call.id",
                hint="Remove the interaction: the history shows how its call ended.",
            )
    ledger = Ledger(document.ledger) if document.ledger else None
    return Conversation(document.messages, document.system, document.minted), ledger


def read_document(fields: dict[str, Any]) -> Document:
    if fields.get("segue") != "conversation":
        raise TranscriptError(
            'This JSON is not a segue conversation: it has no "segue": "conversation".',
            code="not_a_conversation",
            path="segue",
            hint="Convert it first: segue convert --to conversation.",
        )
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TranscriptError(
            "The version is not a whole number from 1 on.",
            code="bad_version",
            path="version",
            hint=f"Set the version of the document; this segue reads up to version {VERSION}.",
        )
    if version > VERSION:
        raise TranscriptError(
            f"This conversation has version {version}; this segue reads up to version {VERSION}.",
            code="newer_version",
            path="version",
            hint="Nothing was changed. Read it with a newer segue.",
        )
    try:
        return msgspec.convert(fields, Document)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        raise TranscriptError(
            what,
            code="bad_document",
            path=where.removeprefix("$.").removesuffix("`"),
            hint="See the JSON Schema.",
        ) from error


def document_schema() -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([Document], ref_template="#/$defs/{name}")
    root = dict(components.pop("Document", schema))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **root,
        "required": sorted(root["required"]),
        "$defs": components,
    }


def _parse(data: bytes | str) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TranscriptError(
            f"This is not JSON: {error}.", code="not_json", hint="Check that the file is whole."
        ) from error
    if not isinstance(parsed, dict):
        raise TranscriptError(
            "This JSON is not a segue conversation: it is no object.",
            code="not_a_conversation",
            hint="Convert it first: segue convert --to conversation.",
        )
    return parsed


def plain_message(message: Message) -> Message:
    blocks: list[Block] = [
        plain_call(block)
        if type(block) is ToolCall
        else plain_result(block)
        if type(block) is ToolResult
        else block
        for block in message.blocks
    ]
    return (
        message if all(map(is_, blocks, message.blocks)) else structs.replace(message, blocks=tuple(blocks))
    )


def plain_options(options: Options) -> Options:
    return structs.replace(
        options,
        response_schema=ensure_json_safe(options.response_schema, any_text=True),
        extra=ensure_json_safe(options.extra, any_text=True),
    )


def plain_interaction(interaction: Interaction) -> Interaction:
    result = interaction.result
    return Interaction(plain_call(interaction.call), None if result is None else plain_result(result))


def plain_call(call: ToolCall) -> ToolCall:
    arguments = ensure_json_safe(call.arguments, any_text=True)
    return call if arguments is call.arguments else structs.replace(call, arguments=arguments)


def plain_result(result: ToolResult) -> ToolResult:
    output = ensure_json_safe(result.output, any_text=True)
    return result if output is result.output else structs.replace(result, output=output)
