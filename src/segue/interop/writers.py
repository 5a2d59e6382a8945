"""Who wrote the messages of a session file: it may name another model for each, and lacks what was sent beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import PREFIX_UNKNOWN, Reasoning, Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block, Origin, Seal
    from segue.conversation.message import Message
    from segue.interop.source import SourceRequest

_MOST_RUNS = 64
"""Finding where a run of one model's messages ends costs a decoding; beyond this many, no model is taken as known."""


def with_writers(source: SourceRequest, models: Sequence[str | None]) -> tuple[Message, ...]:
    """The messages by the model that the file names for each, with seals made under a prefix that nobody knows."""
    runs = _runs(models)
    if not runs:
        return with_unknown_prefix(source.messages)
    if len(runs) > _MOST_RUNS:
        runs = [(0, "")]
    ends = [*(source.decoded_count(start) for start, _ in runs[1:]), len(source.messages)]
    written: list[Message] = []
    for (_, model), end in zip(runs, ends, strict=True):
        written += [_written(message, model) for message in source.messages[len(written) : end]]
    return tuple(written)


def with_unknown_prefix(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages for another system prompt and other tools than their seals were made under."""
    return tuple(_written(message, None) for message in messages)


def _runs(models: Sequence[str | None]) -> list[tuple[int, str]]:
    """Where each run of one model's messages begins."""
    runs: list[tuple[int, str]] = []
    for at, model in enumerate(models):
        if model is not None and (not runs or runs[-1][1] != model):
            runs.append((at if runs else 0, model))
    return runs


def _written(message: Message, model: str | None) -> Message:
    """`model`: None to leave it as it is."""
    if message.origin is None:
        return message
    origin = message.origin if model is None else structs.replace(message.origin, model=model)
    blocks = tuple(_resealed(block, message.origin, origin) for block in message.blocks)
    return structs.replace(message, origin=origin, blocks=blocks)


def _resealed(block: Block, before: Origin, origin: Origin) -> Block:
    if not isinstance(block, Text | Reasoning | ToolCall) or block.seal is None:
        return block
    return structs.replace(block, seal=_seal(block.seal, before, origin))


def _seal(seal: Seal, before: Origin, origin: Origin) -> Seal:
    maker = origin if seal.origin == before else seal.origin
    return structs.replace(seal, origin=maker, made_under=seal.made_under or PREFIX_UNKNOWN)
