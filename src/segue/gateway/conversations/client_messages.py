"""A client's messages before they are adopted: without our capsules, and with the name of whoever evidently wrote its replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Origin, Reasoning
from segue.gateway.memory.memory import is_capsule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from segue.conversation.message import Message


def prepared_by(writer: Origin, wire: str) -> Callable[[Sequence[Message]], Sequence[Message]]:
    """What is done with messages of a wire before they are adopted: our own capsules go, and the evident writer gets his name."""
    read_as = Origin(wire, model=writer.model)
    if read_as == writer:
        return without_capsules

    def prepare(messages: Sequence[Message]) -> Sequence[Message]:
        return [_written_by(message, read_as, writer) for message in without_capsules(messages)]

    return prepare


def _written_by(message: Message, read_as: Origin, writer: Origin) -> Message:
    if message.speaker != "model" or message.origin != read_as:
        return message
    blocks = [
        structs.replace(block, seal=structs.replace(seal, origin=writer))
        if (seal := getattr(block, "seal", None)) is not None and seal.origin == read_as
        else block
        for block in message.blocks
    ]
    return structs.replace(message, blocks=tuple(blocks), origin=writer)


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
