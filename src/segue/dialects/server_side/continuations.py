"""Requests that hold only what is new, because their server keeps the conversation before it: what each wire has of them, as data.

A gateway makes the whole request of such a one, as a client would send it that keeps its conversation itself. From there on there
is no difference between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

import msgspec
from msgspec import Raw, Struct

from segue.errors import SegueError


def body_of(first: Mapping[str, Raw], name: str, messages: Sequence[bytes], rest: Mapping[str, Raw]) -> bytes:
    """A body: these fields, then a list of messages under its name, then the rest. Some of the messages are joined already: a long
    conversation is copied once."""
    start, end = _bare(first), _bare(rest)
    pieces = (b"{", start, b"," if start else b"", b'"%b":[' % name.encode())
    return b"".join((*pieces, *_separated(messages), b"]", b"," if end else b"", end, b"}"))


def _separated(pieces: Sequence[bytes]) -> list[bytes]:
    separated = [b","] * max(2 * len(pieces) - 1, 0)
    separated[::2] = pieces
    return separated


def _bare(fields: Mapping[str, Raw]) -> bytes:
    """An object without its braces."""
    return msgspec.json.encode(fields)[1:-1]


@final
class WholeRequest(Struct, frozen=True):
    """A request with everything, and what of it is new."""

    body: bytes
    new: tuple[Raw, ...]
    """Its messages behind those that are kept."""
    fields: Mapping[str, Raw]
    """All but the messages."""


@final
class Continuations(Struct, frozen=True, kw_only=True):
    """How clients of a wire continue what its server has kept."""

    fields: tuple[str, ...]
    """No body without one of them asks for anything of the kind."""
    keeps: bool = True
    """Whether a request that continues a reply asks to keep its own, too; else it says so itself."""
    can_be_continued: Callable[[bytes], bool] = lambda _: True
    """Whether a kept reply came to an end that a request may build on; one that continues another stays as it came."""
    previous: Callable[[Mapping[str, Raw]], str | None]
    """The id of the reply that a request with these fields continues; empty if it begins a conversation that is to be kept, and None
    if nothing is."""
    conversation: Callable[[Mapping[str, Raw]], str] = lambda _: ""
    """The id of the conversation object that a request adds to; empty if there is none. Its own reply is added, too."""
    joined: Callable[[Sequence[Raw]], bytes]
    """Kept messages as they stand in the list of a request, without its brackets."""
    whole: Callable[[Mapping[str, Raw], Mapping[str, Raw], Sequence[bytes]], WholeRequest]
    """A request: its own fields, those that it has from the beginning, and all messages before its own, in joined pieces."""
    headers: Callable[[Mapping[str, str]], dict[str, str]]
    """The headers of such a request, without what belongs to the continuation."""
    messages_of: Callable[[bytes], list[Raw]]
    """What a reply adds to its conversation."""
    unfit: Callable[[Mapping[str, Raw], bytes], SegueError | None]
    """Why a request cannot continue this reply; None if it can."""
    is_kept: Callable[[bytes], bool] = lambda _: True
    """Whether a complete reply can be continued at all."""
    reply_in_stream: Callable[[bytes], bytes | None]
    """The whole reply in the frames of a stream; None if they hold none."""
