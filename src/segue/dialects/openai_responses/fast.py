"""The fast path of requests (see transcript/fast): the replies of which most of them consist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Text
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.wire import FunctionCall, FunctionCallOutput, MessageItem
from segue.dialects.requests.messages import outcome_text
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.transcript.steps import StepBlock


def write_fast(blocks: tuple[StepBlock, ...], items: list[Any]) -> bool:
    """Add the items of a reply: texts, and calls with their results; whether that is what it is."""
    written: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media:
                return False
            written.append(FunctionCall(block.id, block.name, block.arguments))
            results.append(FunctionCallOutput(block.id, outcome_text(done)))
        elif type(block) is Text and block.seal is None and not block.citations:
            written.append(MessageItem("assistant", block.text))
        else:
            return False
    items += written
    items += results
    return True
