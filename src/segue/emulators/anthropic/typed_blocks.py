"""Reading a request that may be broken: nothing here raises, whatever the client sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from segue.emulators.rules import Context

Body = Mapping[str, Any]


class Block(Struct, frozen=True):
    """One content block and where it stands; plain text content counts as one text block."""

    message: int
    position: int
    role: str
    value: Body

    def text(self, key: str) -> str:
        """A field of the block as text; "" when it is none."""
        return text_of(self.value.get(key))

    @property
    def type(self) -> str:
        return self.text("type")

    @property
    def path(self) -> str:
        return f"messages.{self.message}.content.{self.position}"


class Turn(Struct, frozen=True):
    """Consecutive messages of one role, which the API merges into one (ANT-10)."""

    role: str
    blocks: tuple[Block, ...]
    first: int
    """Index of the first message."""

    def of_type(self, *types: str) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.type in types)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def record_of(value: object) -> Body:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def records_of(value: object) -> Iterator[tuple[int, Body]]:
    """The objects of a list, each with its index."""
    return ((index, item) for index, item in enumerate(list_of(value)) if isinstance(item, dict))


def content_blocks(content: object) -> Iterator[tuple[int, Body]]:
    if isinstance(content, str):
        return iter([(0, {"type": "text", "text": content})])
    return records_of(content)


def message_blocks(index: int, message: Body) -> tuple[Block, ...]:
    role = text_of(message.get("role"))
    return tuple(
        Block(index, position, role, value) for position, value in content_blocks(message.get("content"))
    )


def messages_of(body: Body) -> list[tuple[int, Body]]:
    return list(records_of(body.get("messages")))


def blocks_of(body: Body) -> Iterator[Block]:
    for index, message in messages_of(body):
        yield from message_blocks(index, message)


def turns_of(body: Body) -> list[Turn]:
    turns = []
    for role, group in groupby(messages_of(body), key=lambda pair: text_of(pair[1].get("role"))):
        members = list(group)
        blocks = tuple(block for index, message in members for block in message_blocks(index, message))
        turns.append(Turn(role, blocks, members[0][0]))
    return turns


def tools_of(body: Body) -> list[tuple[int, Body]]:
    return list(records_of(body.get("tools")))


def is_custom(tool: Body) -> bool:
    """A tool with a schema of the client's own; all others are run by the provider or have a fixed schema."""
    return tool.get("type", "custom") in ("custom", None)


def thinking_mode(body: Body) -> str:
    """What the request asks for: ``enabled``, ``adaptive``, ``disabled``, ``between_tools``, or nothing."""
    return text_of(record_of(body.get("thinking")).get("type"))


def thinks(body: Body, context: Context) -> bool:
    mode = thinking_mode(body) or text_of(context.facts.get("thinking_default", "disabled"))
    return mode in ("enabled", "adaptive")


def choice_of(body: Body) -> str:
    return text_of(record_of(body.get("tool_choice")).get("type"))


def version_of(context: Context) -> str:
    return context.headers.get("anthropic-version", "2023-06-01")


def has_beta(context: Context, name: str) -> bool:
    return any(
        value.strip().startswith(name) for value in context.headers.get("anthropic-beta", "").split(",")
    )
