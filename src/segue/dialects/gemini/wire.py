"""The Gemini wire: the shapes that stream through it, typed where it is hot, and its two forms of a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from segue.conversation.extra import Extra
from segue.dialects.gemini.rules import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

ENCODER = msgspec.json.Encoder()

SENTINELS = frozenset(  # GEM-22: as it is, and as clients with a bytes field send it
    {
        "skip_thought_signature_validator",
        "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
        "context_engineering_is_the_way_to_go",
        "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    }
)
"""What stands for a thought signature that is not there."""


WITH_ID = Extra(NAME)
WITHOUT_ID = Extra(NAME, absent=("id",))
"""Of a call or a result on this wire: not every model takes ids (GEM-16), and not every client sends them."""


# What a request holds


class TextPart(Struct, rename="camel", gc=False):
    """A text or a thought, as we send it."""

    text: str


class SignedPart(Struct, rename="camel", gc=False, omit_defaults=True):
    """The same, with what it carries."""

    text: str
    thought: bool = False
    thought_signature: str = ""


class RequestCall(Struct, rename="camel", gc=False, omit_defaults=True):
    """A call as we send it: its arguments are an object (GEM-15)."""

    name: str
    args: Raw
    id: str = ""


class CallPart(Struct, rename="camel", gc=False, omit_defaults=True):
    """A call among the parts."""

    function_call: RequestCall
    thought_signature: str = ""


class Output(Struct, gc=False):
    """What a tool gave (GEM-14)."""

    output: str


class Failure(Struct, gc=False):
    """What a tool failed with (GEM-14)."""

    error: str


class RequestResult(Struct, rename="camel", gc=False, omit_defaults=True):
    """A result as we send it, under the name of its tool (GEM-13)."""

    name: str
    response: Output | Failure | Raw
    id: str = ""
    parts: list[dict[str, Any]] = []


class ResultPart(Struct, rename="camel", gc=False):
    """A result among the parts."""

    function_response: RequestResult


class Turn(Struct, gc=False):
    """One entry of `contents`."""

    role: str
    parts: list[Any]


# What a reply holds


class FunctionCall(Struct, rename="camel", gc=False):
    """A call in a reply; its arguments are kept as the text they arrived in."""

    name: str | None = None
    id: str | None = None
    args: Raw = Raw()
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool | None = None


class Part(Struct, rename="camel", gc=False):
    """A piece of a reply, of whichever kind."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Any = None
    file_data: Any = None
    executable_code: Any = None
    code_execution_result: Any = None
    tool_call: Any = None
    tool_response: Any = None


class Content(Struct, rename="camel", gc=False):
    """What the model writes in one chunk."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One answer; we ask for one."""

    content: Content | None = None
    finish_reason: str | int | None = None
    grounding_metadata: Any = None
    citation_metadata: Any = None
    url_context_metadata: Any = None


class Portion(Struct, rename="camel", gc=False):
    """What is worth reading in the common chunk of a stream that has begun."""

    candidates: list[Candidate] | None = None
    usage_metadata: Raw = Raw()
    """Sent again in every chunk, read only at the end."""
    error: Any = None


class Chunk(Portion, rename="camel", gc=False):
    """A whole reply, or a portion of a streamed one: both have the same shape (GEM-51)."""

    model_version: str | None = None
    response_id: str | None = None
    prompt_feedback: dict[str, Any] | None = None


CHUNKS = msgspec.json.Decoder(Chunk)
PORTIONS = msgspec.json.Decoder(Portion)
COUNTS = msgspec.json.Decoder(dict[str, Any])

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKES: dict[str, str] = {}


def field(held: Mapping[str, Any], name: str) -> Any:
    """A field by its camelCase name; Google takes snake_case as well, so both are met."""
    if name in held:
        return held[name]
    snake = _SNAKES.get(name)
    if snake is None:
        snake = _SNAKES[name] = _HUMP.sub(lambda found: f"_{found[1].lower()}", name)
    return held.get(snake)


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
