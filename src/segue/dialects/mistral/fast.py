"""The fast path of requests (see transcript/fast_paths): the replies of which most of them consist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Text
from segue.dialects.mistral.rules import NAME
from segue.dialects.mistral.wire import Assistant, RequestCall, RequestFunction, Result
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.transcript.steps import StepBlock


def write_fast(blocks: tuple[StepBlock, ...], messages: list[Any]) -> bool:
    """Add the messages of a reply: a text, and calls with their results; whether that is what it is."""
    content: str | None = None
    calls: list[RequestCall] = []
    results: list[Result] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media or done.is_error:
                return False
            calls.append(RequestCall(block.id, RequestFunction(block.name, block.arguments)))
            results.append(Result(block.id, block.name, done.text))
        elif type(block) is Text and content is None and not block.citations:
            content = block.text
        else:
            return False
    messages.append(Assistant(content or "", calls))
    messages += results
    return True
