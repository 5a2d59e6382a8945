"""The fast path of `render` (see fast_paths): what one speaker wrote, or a reply with all its calls answered next.

Most of any history is clean, and composing it without drafts is several times as fast. The loops below are written out
for that reason alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import is_encodable
from segue.transcript.drafts import Note
from segue.transcript.own_fields import travels
from segue.transcript.pairing import same_outcome
from segue.transcript.reasoning import drop_reason, opens
from segue.transcript.steps import AnsweredCall, Completion, ModelStep, StepBlock
from segue.transcript.value_text import arguments_of, text_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.interaction import Interaction
    from segue.conversation.message import Message
    from segue.transcript.composer import Composer
    from segue.transcript.repairs import Kind


def compose_message(composer: Composer, message: Message, start: int) -> bool:
    """Compose a message of a user, or of a model that calls nothing, if it is clean; whether it was."""
    speaker = message.speaker
    if speaker == "tool" or (speaker == "user" and message.instruction):
        return False
    if not _travel(message.blocks, composer.rules.target.dialect):
        return False
    if speaker == "user":
        texts = _plain_texts(message.blocks)
        if texts is None:
            return False
        composer.current = start
        composer.push_user(tuple(texts))
        return True
    dropped: list[tuple[Kind, str]] = []
    blocks = _own_blocks(composer, message, message.blocks, dropped)
    if not blocks or all(type(block) is Reasoning for block in blocks):
        return False
    if type(blocks[-1]) is Reasoning and not composer.rules.reasoning.last:
        return False
    composer.current = start
    _report(composer, start, blocks, dropped)
    if not composer.has_thoughts:
        composer.has_thoughts = any(type(block) is Reasoning for block in blocks)
    composer.push_model(start, blocks, 0)
    return True


def _travel(blocks: tuple[Block, ...], dialect: str) -> bool:
    """Whether nothing is lost of what the blocks have of their wire's own."""
    try:
        return all(block.extra is None or travels(block.extra, dialect) for block in blocks)
    except AttributeError:
        return False  # no block at all, which the slow path refuses with its path


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


def _is_plain(text: str) -> bool:
    return bool(text) and not text.isspace() and (text.isascii() or is_encodable(text))


def _own_blocks(
    composer: Composer, message: Message, blocks: tuple[Block, ...], dropped: list[tuple[Kind, str]]
) -> list[StepBlock] | None:
    """A model's texts and thoughts as they are sent; None if there is anything else. Adds what was `dropped`, and why."""
    composed: list[StepBlock] = []
    thinks: bool | None = None
    for block in blocks:
        if type(block) is Text:
            shown = block
            if block.seal is not None:
                if opens(block.seal, composer.rules) and is_encodable(block.text):
                    composed.append(block)
                    continue
                dropped.append(("seal_dropped", ""))
                shown = Text(block.text)
            if not _is_plain(block.text):
                return None
            composed.append(shown)
        elif type(block) is Reasoning:
            if thinks is None:
                ground = _ground(blocks, composer, message)
                thinks = not ground
                if ground:
                    dropped.append(("reasoning_dropped", ground))
            if thinks:
                if block.seal is not None and not opens(block.seal, composer.rules):
                    return None
                composed.append(block)
        else:
            return None
    return composed


def _report(composer: Composer, start: int, blocks: list[StepBlock], dropped: list[tuple[Kind, str]]) -> None:
    """Note what was dropped of a message whose own blocks come first and whose calls follow."""
    calls = tuple([block for block in blocks if type(block) is AnsweredCall])
    for kind, decision in dropped:
        concerned = calls if kind == "reasoning_dropped" else ()
        composer.notes.append(Note(kind, start, decision=decision, calls=concerned))


def _ground(blocks: tuple[Block, ...], composer: Composer, message: Message) -> str:
    """Why the thoughts of a message are not sent: all of them are or none."""
    for block in blocks:
        if type(block) is Reasoning:
            ground = drop_reason(block, message.origin, composer.rules, composer.policy)
            if ground:
                return ground
    return ""


def compose_exchange(composer: Composer, message: Message, answer: Message, start: int) -> bool:
    """Compose a model's texts and calls with one real result for each, in order; whether that is what it was."""
    blocks, results = message.blocks, answer.blocks
    first = len(blocks) - len(results)
    if first < 0 or not results:
        return False
    dialect = composer.rules.target.dialect
    if not _travel(blocks, dialect) or not _travel(results, dialect):
        return False
    dropped: list[tuple[Kind, str]] = []
    composed: list[StepBlock] | None = [*(_plain_texts(blocks[:first]) or ())]
    if first and not composed:
        composed = _own_blocks(composer, message, blocks[:first], dropped)
    pairs = _pairs(composer, blocks, results, first) if composed is not None else None
    if composed is None or pairs is None:
        return False
    composer.current = start
    notes = composer.notes
    if dropped:
        composer.notes = []
    _answer(composer, message, pairs, composed, start, first)
    if dropped:
        about_calls, composer.notes = composer.notes, notes
        _report(composer, start, composed, dropped)
        composer.notes += about_calls
    _push(composer, start, composed, len(pairs))
    return True


def _answer(
    composer: Composer,
    message: Message,
    pairs: list[tuple[ToolCall, str, Completion]],
    composed: list[StepBlock],
    start: int,
    first: int,
) -> None:
    """Add the calls with their completions."""
    own = composer.issued_by_target(message.origin)
    names, stand_in = composer.names.names, composer.stand_in
    for at, (call, arguments, done) in enumerate(pairs, first):
        if call.name not in names:
            composer.names.project(call.name)
        native_id = call.native_id if own else ""
        wire_id = composer.ids.project(call.id, call.name, native_id)
        if wire_id != native_id:
            composer.reidentified = True
        seal = call.seal if call.seal is None or opens(call.seal, composer.rules) else None
        answered = AnsweredCall(wire_id, call.name, arguments, done, call.id, seal or stand_in, call.extra)
        if native_id and wire_id != native_id:
            composer.note_other_id(native_id, answered, start, at)
        if seal is not call.seal:
            composer.notes.append(Note("seal_dropped", start, at, answered))
        if stand_in is not None and seal is None:
            composer.report_stand_in(start, answered)
        stand_in = None  # one for the first call of a step
        composed.append(answered)


def _push(composer: Composer, start: int, composed: list[StepBlock], calls: int) -> None:
    if not composer.has_thoughts and type(composed[0]) is not AnsweredCall:
        composer.has_thoughts = any(type(block) is Reasoning for block in composed)
    if not composer.last_calls or composer.rules.calls_per_step:
        composer.push_model(start, composed, calls)
        return
    if composer.fills and not any(type(block) is Reasoning for block in composed):
        composed.insert(0, composer.fill(start, composed))
    composer.steps.append(ModelStep(tuple(composed)))
    composer.last_calls = calls


def _pairs(
    composer: Composer, blocks: tuple[Block, ...], results: tuple[Block, ...], first: int
) -> list[tuple[ToolCall, str, Completion]] | None:
    """The calls from `first` on with the text of arguments and result, if all of them can be sent as they are."""
    names, ledger = composer.names.names, composer.ledger
    pairs: list[tuple[ToolCall, str, Completion]] = []
    at = first
    for result in results:
        call = blocks[at]
        at += 1
        if (
            type(call) is not ToolCall
            or type(result) is not ToolResult
            or call.id != result.call_id
            or not call.id
            or call.reconstructed
            or (names.get(call.name) != call.name and not composer.names.keeps(call.name))
            or result.error is not None
            or result.reason is not None
            or result.media
        ):
            return None
        output = result.output
        if type(output) is not str:
            output, exact = text_form(output)
            if not exact:
                return None
        if (
            not output
            or output.isspace()
            or not (output.isascii() or is_encodable(output))
            or (ledger is not None and _knows_better(ledger, call, result))
        ):
            return None
        arguments, change = arguments_of(call, composer.rules.argument_levels)
        if change:
            return None
        done = Completion(output) if result.extra is None else Completion(output, extra=result.extra)
        pairs.append((call, arguments, done))
    return pairs


def _knows_better(ledger: Mapping[str, Interaction], call: ToolCall, result: ToolResult) -> bool:
    known = ledger.get(call.id)
    if result.elided or known is None or known.result is None:
        return False
    return not same_outcome(known.result, result)
