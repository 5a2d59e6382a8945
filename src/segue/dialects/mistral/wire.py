"""The Mistral wire: a reply, whole or in portions, as one shape; and how its content and its calls come."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

ENCODER = msgspec.json.Encoder()


# What a request holds


class RequestFunction(Struct, gc=False):
    """A tool's name and the JSON text of its arguments."""

    name: str
    arguments: str


class RequestCall(Struct, gc=False):
    """One entry of `tool_calls`."""

    id: str
    function: RequestFunction
    type: str = "function"


class TextMessage(Struct, gc=False):
    """A message of the operator or the user."""

    role: str
    content: str | list[dict[str, Any]]


class Assistant(Struct, tag_field="role", tag="assistant", gc=False, omit_defaults=True):
    """A message of the model: text, reasoning and calls."""

    content: str | list[dict[str, Any]]
    tool_calls: list[RequestCall] = []


class Result(Struct, tag_field="role", tag="tool", gc=False):
    """How a call ended."""

    tool_call_id: str
    name: str
    content: str


# What a reply holds


class ContentChunk(Struct, gc=False):
    """A piece of content that is not plain text, of whichever type."""

    type: str = ""
    text: str | None = None
    thinking: Any = None
    signature: str | None = None
    image_url: Any = None
    reference_ids: Any = None
    tool: Any = None
    title: str | None = None
    url: str | None = None


class Function(Struct, frozen=True, gc=False):
    """What is called, and with what: mostly the text of an object, sometimes the object itself."""

    name: str | None = None
    arguments: Raw = Raw()


class Call(Struct, gc=False):
    """A call, whole or a portion of one (MIS-21)."""

    function: Function = Function()
    id: str | None = None
    index: int | None = None


class Delta(Struct, gc=False):
    """The message of a model; in a stream, what it adds."""

    content: str | list[ContentChunk] | None = None
    tool_calls: list[Call] | None = None


class Choice(Struct, gc=False):
    """One answer; we ask for one."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class Portion(Struct, gc=False):
    """What is worth reading in the common chunk of a stream that has begun."""

    choices: list[Choice] | None = None
    usage: Raw = Raw()


class Chunk(Struct, gc=False):
    """A reply or a portion of one, or the error that came in its place."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Any = None
    object: str | None = None
    error: Any = None
    message: Any = None
    detail: Any = None


CHUNKS = msgspec.json.Decoder(Chunk)
PORTIONS = msgspec.json.Decoder(Portion)
