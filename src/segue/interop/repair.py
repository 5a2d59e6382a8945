"""A conversation repaired for good: every call has one result, every result its call.

Rendering does this for one target each time and leaves the conversation as it is; here the repair is kept. Origins,
seals and native ids stay, so nothing is lost for their origin.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult, is_real
from segue.conversation.ids import is_minted
from segue.conversation.message import Conversation, Message
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.blocks.value_text import arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.blocks import Block
    from segue.conversation.interaction import Ledger


def repair_conversation(conversation: Conversation, ledger: Ledger | None = None) -> Conversation:
    """The same conversation without faults. What the ledger knows about a call stands."""
    messages_with_results = tuple(_with_ledger(conversation, ledger)) if ledger else conversation.messages
    repaired = _paired(structs.replace(conversation, messages=messages_with_results))
    # What was given to the model may now stand beside a reply of its own, and be part of it.
    while len((again := _paired(repaired)).messages) < len(repaired.messages):
        repaired = again
    return structs.replace(repaired, minted=max(repaired.minted, conversation.minted))


def _paired(conversation: Conversation) -> Conversation:
    adopted = _without_our_ids(adopt(conversation.messages, system=conversation.system).conversation)
    ends = rebuild(adopted)
    messages: list[Message] = []
    for message in adopted.messages:
        if message.speaker == "tool":
            continue
        if message.speaker == "model" and all(_is_no_answer(block) for block in message.blocks):
            continue  # the reply broke off before any text or call
        messages.append(structs.replace(message, blocks=tuple(_repaired(message.blocks))))
        results = tuple(_end(call, ends) for call in message.calls)
        if results:
            messages.append(Message("tool", results))
    return Conversation(tuple(messages), adopted.system, adopted.minted)


def _without_our_ids(conversation: Conversation) -> Conversation:
    """Adopting keeps every id as the native one; ids that we minted are minted anew."""
    messages = tuple(
        structs.replace(message, blocks=tuple(_without_our_id(block) for block in message.blocks))
        for message in conversation.messages
    )
    return structs.replace(conversation, messages=messages)


def _without_our_id(block: Block) -> Block:
    if (type(block) is ToolCall or type(block) is ToolResult) and is_minted(block.native_id):
        return structs.replace(block, native_id="")
    return block


def _with_ledger(conversation: Conversation, ledger: Ledger) -> Iterator[Message]:
    """The messages, with what the ledger holds right behind each call; its real result is then the only one."""
    used = Counter(call.id for message in conversation.messages for call in message.calls)
    settled = {
        call_id
        for call_id, known in ledger.items()
        if known.result is not None and is_real(known.result) and used[call_id] == 1
    }
    for message in conversation.messages:
        blocks = tuple(
            block for block in message.blocks if type(block) is not ToolResult or block.call_id not in settled
        )
        if blocks or not message.blocks:
            yield structs.replace(message, blocks=blocks)
        known = [ledger[call.id].result for call in message.calls if call.id in ledger and used[call.id] == 1]
        results = tuple(result for result in known if result is not None)
        if results:
            yield Message("tool", results)


def _end(call: ToolCall, ends: Ledger) -> ToolResult:
    ended = ends[call.id].result if call.id in ends else None
    if ended is None:
        return ToolResult(call.id, call.name, native_id=call.native_id, reason="interrupted")
    return structs.replace(ended, call_id=call.id)


def _is_no_answer(block: Block) -> bool:
    return type(block) is Reasoning or (type(block) is Text and not block.text.strip())


def _repaired(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if type(block) is ToolCall:
            arguments, change = arguments_of(block)
            yield structs.replace(block, arguments=None, raw=arguments) if change else block
        else:
            yield block
