"""Ollama's own wire: one line of a reply."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

ENCODER = msgspec.json.Encoder()


# What a request holds


class RequestFunction(Struct, gc=False):
    """What is called: the arguments are an object (OLL-02)."""

    index: int
    name: str
    arguments: Raw


class RequestCall(Struct, gc=False):
    """One entry of `tool_calls`."""

    id: str
    function: RequestFunction


class TextMessage(Struct, gc=False, omit_defaults=True):
    """A message of the operator or the user, with images."""

    role: str
    content: str
    images: list[str] = []


class Assistant(Struct, tag_field="role", tag="assistant", gc=False, omit_defaults=True):
    """A message of the model: text, reasoning and calls."""

    content: str
    thinking: str = ""
    tool_calls: list[RequestCall] = []


class Result(Struct, tag_field="role", tag="tool", gc=False):
    """How a call ended (OLL-06)."""

    tool_name: str
    tool_call_id: str
    content: str


# What a reply holds


class Function(Struct, frozen=True, gc=False):
    """What is called, and with what: an object (OLL-21), from some models the text of one."""

    name: str | None = None
    arguments: Raw = Raw()


class Call(Struct, gc=False):
    """A call; it comes whole."""

    function: Function = Function()
    id: str | None = None


class ReplyMessage(Struct, gc=False):
    """What the model adds."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None
    images: list[str] | None = None


class Portion(Struct, gc=False):
    """What is worth reading in the common line of a stream that has begun."""

    message: ReplyMessage | None = None
    done: bool | None = None
    error: Any = None


class Line(Portion, gc=False):
    """A whole reply, or a line of a streamed one, or the error that came in its place (OLL-20, OLL-23)."""

    model: str | None = None
    done_reason: str | None = None
    prompt_eval_count: Any = None
    eval_count: Any = None


LINES = msgspec.json.Decoder(Line)
PORTIONS = msgspec.json.Decoder(Portion)
