"""The fast path of requests (see transcript/fast_paths): the replies of which most of them consist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from segue.conversation.blocks import Reasoning, Text
from segue.dialects.ollama.rules import NAME
from segue.dialects.ollama.wire import Assistant, RequestCall, RequestFunction, Result
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.transcript.steps import StepBlock


def write_fast(blocks: tuple[StepBlock, ...], messages: list[Any]) -> bool:
    """Add the messages of a reply: a text, a thought, and calls with their results; whether that is what it is."""
    content = thought = ""
    calls: list[RequestCall] = []
    results: list[Result] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media or done.is_error:
                return False
            function = RequestFunction(len(calls), block.name, Raw(block.arguments))
            calls.append(RequestCall(block.id, function))
            results.append(Result(block.name, block.id, done.text))
        elif type(block) is Text:
            content += block.text
        elif type(block) is Reasoning:
            thought += block.text
        else:
            return False
    messages.append(Assistant(content, thought, calls))
    messages += results
    return True
