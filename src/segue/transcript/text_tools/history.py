"""Past calls and results as plain messages, for a model without native tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Text
from segue.conversation.message import Message
from segue.transcript.rules import MediaRules, ReasoningRules, Rules
from segue.transcript.steps import AnsweredCall, UserStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segue.conversation.blocks import Block
    from segue.transcript.steps import StepBlock, Transcript
    from segue.transcript.text_tools.form import Form

_ANY = frozenset({"image/*", "audio/*", "video/*", "application/*", "text/*"})
PAIRING_ONLY = Rules(
    media=MediaRules(_ANY, _ANY, _ANY, frozenset({"image", "document", "audio"})),
    reasoning=ReasoningRules(replay="plain"),
    instructions="inline",
)
"""Rules that settle which result belongs to which call; what the target itself demands is left to its own render."""


def write_history(transcript: Transcript, form: Form) -> Iterator[Message]:
    """The messages of a transcript rendered by `PAIRING_ONLY`, without calls."""
    names = {projected: name for name, projected in transcript.names.items()}
    for step in transcript.steps:
        if type(step) is UserStep:
            yield Message("user", step.blocks, instruction=step.instruction)
            continue
        for blocks in _by_call(step.blocks) if form.single_calls else (step.blocks,):
            calls = [
                structs.replace(block, name=names.get(block.name, block.name))
                for block in blocks
                if type(block) is AnsweredCall
            ]
            if written := _reply_blocks(blocks, calls, form):
                yield Message("model", written, transcript.target)
            if calls:
                media = tuple(medium for call in calls for medium in call.completion.media)
                yield Message("user", (Text(form.write_results(calls)), *media))


def _by_call(blocks: Iterable[StepBlock]) -> Iterator[list[StepBlock]]:
    part: list[StepBlock] = []
    for block in blocks:
        part.append(block)
        if type(block) is AnsweredCall:
            yield part
            part = []
    yield part


def _reply_blocks(blocks: Iterable[StepBlock], calls: list[AnsweredCall], form: Form) -> tuple[Block, ...]:
    thoughts = [block for block in blocks if type(block) is Reasoning]
    texts = [block.text for block in blocks if type(block) is Text]
    kept = [] if form.writes_thoughts else thoughts
    media = [block for block in blocks if type(block) is Media]
    text = form.write_reply([thought.text for thought in thoughts], texts, calls)
    return (*kept, *media, *((Text(text),) if text else ()))
