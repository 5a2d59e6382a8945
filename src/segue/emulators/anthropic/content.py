"""Messages that say nothing, and blocks that may not stand where they stand: ANT-03, ANT-10 … ANT-17."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from segue.emulators.anthropic import typed_blocks
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.anthropic.typed_blocks import Block, Body

MOST_MESSAGES = 100_000


def complaints(body: Body, context: Context) -> Complaints:
    yield from some_messages(body)
    yield from legacy_alternation(body)
    yield from empty_messages(body)
    yield from empty_text(body)
    yield from empty_system(body)
    yield from only_whitespace(body)
    if typed_blocks.version_of(context) >= "2026-10-21":
        yield from assistant_documents(body)
        yield from user_citations(body)


@rule("ANT-11")
def some_messages(body: Body) -> Complaints:
    messages = body.get("messages")
    if messages == []:
        yield Refusal("ANT-11", "messages: at least one message is required")
    if len(typed_blocks.list_of(messages)) > MOST_MESSAGES:
        yield Refusal("ANT-11", f"messages: List should have at most {MOST_MESSAGES} items after validation")


@rule("ANT-10", "L")
def legacy_alternation(body: Body) -> Complaints:
    """The API merges neighbours today; Bedrock and older servers still insist on alternation."""
    messages = typed_blocks.messages_of(body)
    roles = [typed_blocks.text_of(message.get("role")) for _, message in messages]
    if roles and roles[0] == "assistant":
        yield Refusal("ANT-10", 'messages: first message must use the "user" role', confidence="L")
    for one, other in itertools.pairwise(roles):
        if one == other:
            text = (
                'messages: roles must alternate between "user" and "assistant",'
                f' but found multiple "{one}" roles in a row'
            )
            yield Refusal("ANT-10", text, confidence="L")
            return


@rule("ANT-14")
def empty_messages(body: Body) -> Complaints:
    messages = typed_blocks.messages_of(body)
    for index, message in messages:
        final_assistant = index == messages[-1][0] and message.get("role") == "assistant"
        if message.get("content") in ("", []) and message.get("role") != "system" and not final_assistant:
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield Refusal("ANT-14", f"messages.{index}: {text}")


@rule("ANT-12")
def empty_text(body: Body) -> Complaints:
    for index, message in typed_blocks.messages_of(body):
        if isinstance(message.get("content"), str):
            continue
        if any(_texts(block) == "" for block in typed_blocks.message_blocks(index, message)):
            yield Refusal("ANT-12", "messages: text content blocks must be non-empty")
            return


def _texts(block: Block) -> str | None:
    """The text of a text block, or "" when a tool result holds an empty one."""
    if block.type == "text":
        return block.text("text")
    if block.type == "tool_result":
        inner = (value for _, value in typed_blocks.records_of(block.value.get("content")))
        if any(value.get("type") == "text" and value.get("text") == "" for value in inner):
            return ""
    return None


@rule("ANT-17")
def empty_system(body: Body) -> Complaints:
    for _, block in typed_blocks.records_of(body.get("system")):
        if block.get("text") == "":
            yield Refusal("ANT-17", "system: text content blocks must be non-empty")
            return


@rule("ANT-13")
def only_whitespace(body: Body) -> Complaints:
    for index, message in typed_blocks.messages_of(body):
        blocks = typed_blocks.message_blocks(index, message)
        texts = [block.text("text") for block in blocks if block.type == "text"]
        if any(texts) and not any(text.strip() for text in texts):
            yield Refusal("ANT-13", "messages: text content blocks must contain non-whitespace text")
            return


# Of the next two the rulebook has the rule, not the words.
@rule("ANT-03")
def assistant_documents(body: Body) -> Complaints:
    for block in typed_blocks.blocks_of(body):
        if block.role == "assistant" and block.type == "document":
            text = f"{block.path}: `document` blocks are not permitted in `assistant` messages"
            yield Refusal("ANT-03", text)


@rule("ANT-03")
def user_citations(body: Body) -> Complaints:
    for block in typed_blocks.blocks_of(body):
        if block.role == "user":
            for path, value in _nested(f"{block.path}.{block.type}", block.value):
                if value.get("type") == "text" and value.get("citations"):
                    yield Refusal("ANT-03", f"{path}.citations: Extra inputs are not permitted")


def _nested(path: str, block: Body) -> Iterator[tuple[str, Body]]:
    """A block and the blocks inside it, two deep at most: results hold search results, these hold text."""
    yield path, block
    for index, inner in typed_blocks.records_of(block.get("content")):
        yield f"{path}.content.{index}", inner
        for place, innermost in typed_blocks.records_of(inner.get("content")):
            yield f"{path}.content.{index}.content.{place}", innermost
