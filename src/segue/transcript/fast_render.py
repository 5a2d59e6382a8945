"""The fast path of `render` (see fast_paths): plain text of one speaker, or a reply with all its calls answered next.

Most of any history is clean, and composing it without drafts is several times as fast. The loops below are written out
for that reason alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.json_safe import is_encodable
from segue.transcript.pairing import same_outcome
from segue.transcript.steps import AnsweredCall, Completion, ModelStep, StepBlock
from segue.transcript.value_text import OBJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.interaction import Interaction
    from segue.conversation.message import Message
    from segue.transcript.composer import Composer


def compose_message(composer: Composer, message: Message, start: int) -> bool:
    """Compose a message of a user, or of a model that calls nothing, if it is clean; whether it was."""
    speaker = message.speaker
    if speaker == "tool" or (speaker == "user" and message.instruction):
        return False
    texts = _plain_texts(message.blocks)
    if texts is None:
        return False
    composer.current = start
    if speaker == "user":
        composer.push_user(tuple(texts))
    else:
        composer.push_model(start, [*texts], 0)
    return True


def _plain_texts(blocks: tuple[Block, ...]) -> list[Text] | None:
    """The blocks if there are any and all are texts without a seal, with something in them."""
    texts: list[Text] = []
    for block in blocks:
        if type(block) is not Text or block.seal is not None:
            return None
        text = block.text
        if not text or text.isspace() or not (text.isascii() or is_encodable(text)):
            return None
        texts.append(block)
    return texts or None


def compose_exchange(composer: Composer, message: Message, answer: Message, start: int) -> bool:
    """Compose a model's texts and calls with one real text result for each, in order; whether that is what it was."""
    blocks, results = message.blocks, answer.blocks
    first = len(blocks) - len(results)
    if first < 0 or not results:
        return False
    composed: list[StepBlock] = []
    if first:
        texts = _plain_texts(blocks[:first])
        if texts is None:
            return False
        composed += texts
    pairs = _pairs(composer, blocks, results, first)
    if pairs is None:
        return False
    composer.current = start
    own = composer.issued_by_target(message.origin)
    names, stand_in = composer.names.names, composer.stand_in
    for at, (call, output) in enumerate(pairs, first):
        if call.name not in names:
            composer.names.project(call.name)
        native_id = call.native_id if own else ""
        wire_id = composer.ids.project(call.id, call.name, native_id)
        answered = AnsweredCall(wire_id, call.name, call.raw, Completion(output), call.id, stand_in)
        if native_id and wire_id != native_id:
            composer.note_other_id(native_id, answered, start, at)
        if stand_in is not None:
            composer.report_stand_in(start, answered)
            stand_in = None  # one for the first call of a step
        composed.append(answered)
    if composer.last_calls and not composer.rules.calls_per_step:
        if composer.fills:
            composed.insert(0, composer.fill(start, composed))
        composer.steps.append(ModelStep(tuple(composed)))
        composer.last_calls = len(pairs)
    else:
        composer.push_model(start, composed, len(pairs))
    return True


def _pairs(
    composer: Composer, blocks: tuple[Block, ...], results: tuple[Block, ...], first: int
) -> list[tuple[ToolCall, str]] | None:
    """The calls from `first` on with the text of their results, if all of them can be sent as they are."""
    names, ledger = composer.names.names, composer.ledger
    pairs: list[tuple[ToolCall, str]] = []
    at = first
    for result in results:
        call = blocks[at]
        at += 1
        if (
            type(call) is not ToolCall
            or type(result) is not ToolResult
            or call.id != result.call_id
            or not call.id
            or call.seal is not None
            or call.reconstructed
            or (names.get(call.name) != call.name and not composer.names.keeps(call.name))
            or result.error is not None
            or result.reason is not None
            or result.media
        ):
            return None
        output = result.output
        if (
            type(output) is not str
            or not output
            or output.isspace()
            or not (output.isascii() or is_encodable(output))
            or (ledger is not None and _knows_better(ledger, call, result))
        ):
            return None
        try:
            OBJECT.decode(call.raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        pairs.append((call, output))
    return pairs


def _knows_better(ledger: Mapping[str, Interaction], call: ToolCall, result: ToolResult) -> bool:
    known = ledger.get(call.id)
    if result.elided or known is None or known.result is None:
        return False
    return not same_outcome(known.result, result)
