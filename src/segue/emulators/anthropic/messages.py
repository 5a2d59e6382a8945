"""The messages of a request: what they may hold and where (ANT-03, ANT-10 … ANT-17), and one result for every call, at once
and first (ANT-20 … ANT-31)."""

from __future__ import annotations

import itertools
from itertools import takewhile
from typing import TYPE_CHECKING

from segue.emulators.anthropic import typed_blocks
from segue.emulators.anthropic.model_features import NO_PREFILL
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.anthropic.typed_blocks import Block, Body, Turn


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
    turns = typed_blocks.turns_of(body)
    yield from wrong_side(turns)
    yield from unique_ids(body)
    yield from unexpected_results(turns)
    yield from calls_not_last(turns, context)
    yield from unanswered_calls(turns)
    yield from several_results(turns)
    yield from error_results(body)
    yield from empty_result_list(body)
    yield from server_tools(turns)


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


THOUGHTS = ("thinking", "redacted_thinking")


@rule("ANT-20", "M")
@rule("ANT-22", "M")
def wrong_side(turns: list[Turn]) -> Complaints:
    for turn in turns:
        for block in turn.blocks:
            if block.type == "tool_use" and turn.role == "user":
                text = f"messages.{block.message}: `tool_use` blocks can only be in `assistant` messages"
                yield Refusal("ANT-20", text, confidence="M")
            if block.type == "tool_result" and turn.role == "assistant":
                text = f"messages.{block.message}: `tool_result` blocks can only be in `user` messages"
                yield Refusal("ANT-22", text, confidence="M")


@rule("ANT-24")
def unique_ids(body: Body) -> Complaints:
    """Within a message. Several reports say over the whole transcript, but recordings with repeats were answered."""
    seen: set[tuple[int, str]] = set()
    for block in typed_blocks.blocks_of(body):
        if block.type not in ("tool_use", "server_tool_use"):
            continue
        call = block.message, block.text("id")
        if call in seen:
            yield Refusal("ANT-24", f"{block.path}: `tool_use` ids must be unique")
        seen.add(call)


@rule("ANT-22")
def unexpected_results(turns: list[Turn]) -> Complaints:
    for place, turn in enumerate(turns):
        if turn.role != "user":
            continue
        calls = [call.text("id") for call in turns[place - 1].of_type("tool_use")] if place else []
        for block in turn.of_type("tool_result"):
            result_id = block.text("tool_use_id")
            if result_id not in calls:
                text = (
                    f"{block.path}: unexpected `tool_use_id` found in `tool_result` blocks: {result_id}. Each"
                    " `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
                yield Refusal("ANT-22", text)


@rule("ANT-27")
def calls_not_last(turns: list[Turn], context: Context) -> Complaints:
    """What follows a call splits the message: its calls count as unanswered, its rest as a prefill."""
    for turn in turns:
        stranded = _stranded_calls(turn)
        if turn.role != "assistant" or not stranded:
            continue
        if turn.of_type(*THOUGHTS) and context.facts.get("prefill") is False:
            yield Refusal("ANT-27", NO_PREFILL)
        else:
            yield Refusal("ANT-27", _unanswered(stranded))


def _stranded_calls(turn: Turn) -> list[Block]:
    """Calls with text or thoughts behind them in the same message."""
    stranded: list[Block] = []
    pending: list[Block] = []
    for block in turn.blocks:
        if pending and pending[-1].message != block.message:
            pending = []
        if block.type == "tool_use":
            pending.append(block)
        elif block.type in ("text", *THOUGHTS):
            stranded += pending
            pending = []
    return stranded


@rule("ANT-20")
@rule("ANT-21", "M")
def unanswered_calls(turns: list[Turn]) -> Complaints:
    """Results may be split over consecutive messages, which count as one (ANT-21)."""
    for place, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        following = turns[place + 1] if place + 1 < len(turns) else None
        answered = _leading_results(following) if following and following.role == "user" else set()
        missing = [block for block in turn.of_type("tool_use") if block.text("id") not in answered]
        if missing:
            yield Refusal("ANT-20", _unanswered(missing))


def _unanswered(calls: list[Block]) -> str:
    ids = ", ".join(call.text("id") for call in calls)
    return (
        f"messages.{calls[0].message}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _leading_results(turn: Turn) -> set[str]:
    leading = takewhile(lambda block: block.type == "tool_result", turn.blocks)
    return {block.text("tool_use_id") for block in leading}


@rule("ANT-23")
def several_results(turns: list[Turn]) -> Complaints:
    for turn in turns:
        seen: set[str] = set()
        for block in turn.of_type("tool_result"):
            result_id = block.text("tool_use_id")
            if result_id in seen:
                text = (
                    f"{block.path}: each tool_use must have a single result."
                    f" Found multiple `tool_result` blocks with id: {result_id}"
                )
                yield Refusal("ANT-23", text)
            seen.add(result_id)


@rule("ANT-28", "M")
def error_results(body: Body) -> Complaints:
    for block in typed_blocks.blocks_of(body):
        if block.type != "tool_result" or block.value.get("is_error") is not True:
            continue
        content = block.value.get("content")
        if not content:
            text = f"{block.path}.tool_result: content cannot be empty if `is_error` is true"
            yield Refusal("ANT-28", text, confidence="M")
        elif any(value.get("type") != "text" for _, value in typed_blocks.records_of(content)):
            text = f"{block.path}.tool_result: all content must be type `text` if `is_error` is true"
            yield Refusal("ANT-28", text, confidence="M")


@rule("ANT-28", "M")
def empty_result_list(body: Body) -> Complaints:
    for block in typed_blocks.blocks_of(body):
        if block.type == "tool_result" and block.value.get("content") == []:
            text = f"{block.path}.tool_result: content cannot be an empty list"
            yield Refusal("ANT-28", text, confidence="M")


@rule("ANT-30")
def server_tools(turns: list[Turn]) -> Complaints:
    """The provider's own tools answer inside the assistant's messages; a paused last turn may still be open."""
    used: dict[str, Block] = {}
    answered: set[str] = set()
    for block in (block for turn in turns if turn.role == "assistant" for block in turn.blocks):
        if block.type in ("server_tool_use", "mcp_tool_use"):
            used[block.text("id")] = block
        elif block.type.endswith("_tool_result"):
            result_id = block.text("tool_use_id")
            answered.add(result_id)
            if result_id not in used:
                yield Refusal("ANT-30", _orphan(block, result_id))
    waiting = {_caller(block) for turn in turns for block in turn.of_type("tool_use")}
    for call_id, block in used.items():
        # A call to an MCP server may still be in flight: recorded as accepted.
        if block.type == "mcp_tool_use":
            continue
        if call_id not in answered | waiting and block.message < turns[-1].first:
            yield Refusal("ANT-30", _open_server_call(block, call_id))


def _caller(block: Block) -> str:
    """The server tool that made this call, and waits for its result before it answers itself."""
    return typed_blocks.text_of(typed_blocks.record_of(block.value.get("caller")).get("tool_id"))


def _orphan(block: Block, result_id: str) -> str:
    return (
        f"{block.path}: unexpected `tool_use_id` found in `{block.type}` blocks: {result_id}. Each `{block.type}`"
        " block must have a corresponding `server_tool_use` block before it."
    )


def _open_server_call(block: Block, call_id: str) -> str:
    name = block.text("name")
    result = "tool_search_tool_result" if name.startswith("tool_search_tool") else f"{name}_tool_result"
    return (
        f"messages.{block.message}: `{name}` tool use with id `{call_id}`"
        f" was found without a corresponding `{result}` block"
    )
