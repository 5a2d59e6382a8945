"""What an emulated model says: provider-neutral pieces that each provider's module puts on its own wire."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field, structs

from segue.emulators.model import model_facts


class Say(Struct, frozen=True, tag="say"):
    """Visible text."""

    text: str


class Think(Struct, frozen=True, tag="think"):
    """Reasoning, signed on the wire where the provider signs it."""

    text: str


class Call(Struct, frozen=True, tag="call"):
    """A call of one of the offered tools."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Piece: TypeAlias = Say | Think | Call


class Reply(Struct, frozen=True, kw_only=True):
    """One whole answer of an emulated model."""

    pieces: tuple[Piece, ...] = ()
    finish: Literal["auto", "length", "refusal", "content_filter", "pause"] = "auto"
    """`auto`: tool calls if there are any, else a normal stop; `pause`: the model continues when it is asked to, where the wire
    knows that, else a normal stop."""
    chunk_size: int = 12
    """Characters per streamed delta."""
    delay: float = 0.0
    """Seconds between two streamed chunks."""


class Offer(Struct, frozen=True):
    """A tool that the request offers, with the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


class Prompt(Struct, frozen=True, kw_only=True):
    """What a responder may know of a request: each provider's module fills it from its own wire."""

    provider: str
    model: str = ""
    text: str = ""
    """The last text of the user."""
    results: tuple[str, ...] = ()
    """Texts of the tool results after it, in order: empty at the start of a turn."""
    tools: tuple[Offer, ...] = ()
    must_call: bool = False
    """The request demands a tool call (required, any, or a named tool; then `tools` holds only that one)."""
    parallel: bool = True
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the answer must fit, where the request asks for one."""
    thinking: bool = False
    """The model reasons in this request, so a responder may send `Think` pieces."""


def limited(reply: Reply, most: object) -> Reply:
    """The reply as a model breaks it off after `most` tokens: text is cut, a call that does not fit is dropped."""
    if not isinstance(most, int):
        return reply
    kept: list[Piece] = []
    left = most
    for piece in reply.pieces:
        size = piece_tokens(piece)
        if size > left:
            if not isinstance(piece, Call) and left > 0:
                kept.append(type(piece)(piece.text.encode()[: left * 4].decode("utf-8", "ignore")))
            return structs.replace(reply, pieces=tuple(kept), finish="length")
        kept.append(piece)
        left -= size
    return reply


def piece_tokens(piece: Piece) -> int:
    if isinstance(piece, Call):
        return model_facts.count_tokens(piece.name) + model_facts.count_value_tokens(piece.arguments)
    return model_facts.count_tokens(piece.text)


def text_of(reply: Reply) -> str:
    return "".join(piece.text for piece in reply.pieces if isinstance(piece, Say))


def thoughts_of(reply: Reply) -> str:
    return "".join(piece.text for piece in reply.pieces if isinstance(piece, Think))


def calls_of(reply: Reply) -> tuple[Call, ...]:
    return tuple(piece for piece in reply.pieces if isinstance(piece, Call))


def portions(text: str, size: int) -> list[str]:
    """The text in streamed deltas; none when there is nothing to say."""
    step = max(size, 1)
    return [text[start : start + step] for start in range(0, len(text), step)]
