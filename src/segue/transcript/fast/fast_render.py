"""The fast path of `render` (see fast_paths): what one speaker wrote, or a reply with all its calls answered next.

Most of any history is clean, and composing it without drafts is several times as fast. The loops below are written out
for that reason alone. A run of replies with one call each and its result is most of what an agent sends: there, what the
composer has is looked up once for the whole run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable, is_encodable
from segue.transcript.blocks.foreign_fields import folded, losses, stays_in_place, travels
from segue.transcript.blocks.outcomes import same_outcome
from segue.transcript.blocks.value_text import arguments_of, is_object_text, plain_text, text_form
from segue.transcript.drafts import Note
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, Completion, ModelStep, StepBlock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.interaction import Interaction
    from segue.conversation.message import Message
    from segue.transcript.composer import Composer
    from segue.transcript.repairs import Kind


def compose_message(composer: Composer, message: Message, start: int) -> bool:
    """Compose a message of a user, or of a model that calls nothing, if it is clean; whether it was."""
    speaker = message.speaker
    if speaker == "tool":
        return False
    if speaker == "user":
        lost: list[tuple[Kind, str]] = []
        texts = _plain_texts(message.blocks, composer.rules.target.dialect, lost)
        if texts is None:
            return False
        composer.current = start
        if lost:
            composer.notes += [Note(kind, start, decision=decision) for kind, decision in lost]
        if not message.instruction:
            composer.push_user(tuple(texts))
        elif stays_in_place(composer.rules, composer.steps, composer.last_calls, texts):
            composer.push_user(tuple(texts), instruction=True)
        else:
            composer.notes.append(Note("instruction_folded", start))
            composer.push_user(tuple(folded(texts)))
        return True
    dropped: list[tuple[Kind, str]] = []
    blocks = own_blocks(composer, message, len(message.blocks), dropped)
    if not blocks or all(type(block) is Reasoning for block in blocks):
        return False
    if type(blocks[-1]) is Reasoning and not composer.rules.reasoning.last:
        return False
    composer.current = start
    if dropped:
        report(composer, start, blocks, dropped)
    composer.push_model(start, blocks, 0)
    return True


def _plain_texts(blocks: tuple[Block, ...], dialect: str, lost: list[tuple[Kind, str]]) -> list[Text] | None:
    """The blocks if there are any and all are texts without a seal, with something in them. Adds what is `lost` of them."""
    texts: list[Text] = []
    for block in blocks:
        if type(block) is not Text or block.seal is not None or block.citations or not _is_plain(block.text):
            return None
        if block.extra is None or travels(block.extra, dialect):
            texts.append(block)
        else:
            lost += losses(block.extra)
            texts.append(Text(block.text))
    return texts or None


def _is_plain(text: str) -> bool:
    return bool(text) and not text.isspace() and (text.isascii() or is_encodable(text))


def own_blocks(
    composer: Composer, message: Message, end: int, dropped: list[tuple[Kind, str]]
) -> list[StepBlock] | None:
    """A model's texts and thoughts up to `end` as they are sent; None if there is anything else. Adds what was `dropped`,
    and why."""
    composed: list[StepBlock] = []
    thinks: bool | None = None
    blocks = message.blocks
    for block in blocks if end == len(blocks) else blocks[:end]:
        kind = type(block)
        if kind is not Text and kind is not Reasoning:
            return None
        extra = block.extra
        if extra is not None and not travels(extra, composer.rules.target.dialect):
            return None
        if type(block) is Text:
            if block.citations:
                return None
            shown = block if block.seal is None else _unsealed(composer, block, dropped)
            text = block.text
            if shown.seal is None and (
                not text or text.isspace() or not (text.isascii() or is_encodable(text))
            ):
                return None
            composed.append(shown)
        elif type(block) is Reasoning:
            if thinks is None:
                thinks = _thinks(composer, message, blocks, dropped)
                if not thinks and composer.rules.reasoning.item_id and any(one.extra for one in blocks):
                    return None
            if thinks:
                if block.seal is not None and not composer.makers.opens(block.seal):
                    return None
                composer.has_thoughts = True
                composed.append(block)
    return composed


def _unsealed(composer: Composer, block: Text, dropped: list[tuple[Kind, str]]) -> Text:
    """A text with the seal that the target can open, or without one."""
    if block.seal is not None and composer.makers.opens(block.seal) and is_encodable(block.text):
        return block
    dropped.append(("seal_dropped", ""))
    return Text(block.text)


def _thinks(
    composer: Composer, message: Message, blocks: tuple[Block, ...], dropped: list[tuple[Kind, str]]
) -> bool:
    """Whether the thoughts of a message are sent: all of them are or none."""
    for block in blocks:
        if type(block) is Reasoning:
            ground = composer.makers.drop_reason(block, message.origin, composer.policy)
            if ground:
                dropped.append(("reasoning_dropped", ground))
                return False
    return True


def report(composer: Composer, start: int, blocks: list[StepBlock], dropped: list[tuple[Kind, str]]) -> None:
    """Note what was dropped of a message whose own blocks come first and whose calls follow."""
    calls = tuple([block for block in blocks if type(block) is AnsweredCall])
    for kind, decision in dropped:
        concerned = calls if kind == "reasoning_dropped" else ()
        composer.notes.append(Note(kind, start, decision=decision, calls=concerned))


def compose_exchange(composer: Composer, message: Message, answer: Message, start: int) -> bool:
    """Compose a model's texts and calls with one real result for each, in order; whether that is what it was."""
    results = answer.blocks
    first = len(message.blocks) - len(results)
    if first < 0 or not results:
        return False
    dropped: list[tuple[Kind, str]] = []
    composed = own_blocks(composer, message, first, dropped) if first else []
    pairs = _pairs(composer, message.blocks, results, first) if composed is not None else None
    if composed is None or pairs is None:
        return False
    composer.current = start
    notes = composer.notes
    if dropped:
        composer.notes = []
    _answer(composer, message, pairs, composed, start, first)
    if dropped:
        about_calls, composer.notes = composer.notes, notes
        report(composer, start, composed, dropped)
        composer.notes += about_calls
    calls = len(pairs)
    if not composer.last_calls or composer.rules.calls_per_step:
        composer.push_model(start, composed, calls)
        return True
    if composer.fills:
        composer.ensure_thoughts(start, composed)
    composer.steps.append(ModelStep(tuple(composed)))
    composer.last_calls = calls
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
    own = composer.makers.is_provider(message.origin)
    names, stand_in, dialect = composer.names, composer.stand_in, composer.rules.target.dialect
    at = first
    for call, arguments, ended in pairs:
        name, native_id, made = call.name, call.native_id if own else "", call.seal
        if name not in names.names:
            names.project(name)
        wire_id = composer.ids.project(call.id, name, native_id)
        if wire_id != native_id:
            composer.reidentified = True
        seal = made if made is None or composer.makers.opens(made) else None
        travelling = ended.extra is None or travels(ended.extra, dialect)
        done = ended if travelling else Completion(ended.text, ended.is_error)
        answered = AnsweredCall(wire_id, name, arguments, done, call.id, seal or stand_in, call.extra)
        if native_id and wire_id != native_id:
            composer.note_other_id(native_id, answered, start, at)
        if not travelling:
            composer.notes += [
                Note(kind, start, at, answered, decision) for kind, decision in losses(ended.extra)
            ]
        if seal is not made:
            composer.notes.append(Note("seal_dropped", start, at, answered))
        if stand_in is not None:
            if seal is None:
                composer.report_stand_in(start, answered)
            stand_in = None  # one for the first call of a step
        composed.append(answered)
        at += 1


def _pairs(
    composer: Composer, blocks: tuple[Block, ...], results: tuple[Block, ...], first: int
) -> list[tuple[ToolCall, str, Completion]] | None:
    """The calls from `first` on with the text of arguments and result, if all of them can be sent as they are, but for what
    the results have of another wire's own."""
    names, ledger, levels = composer.names, composer.ledger, composer.rules.argument_levels
    dialect = composer.rules.target.dialect
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
            or result.reason is not None
            or result.media
            or (call.extra is not None and not travels(call.extra, dialect))
        ):
            return None
        output = result.output
        failed = result.error is not None
        if failed:
            if output is not None:
                return None
            output = result.error
        elif type(output) is not str:
            output, exact = text_form(output)
            if not exact:
                return None
        if (
            not output
            or output.isspace()
            or not (output.isascii() or is_encodable(output))
            or (ledger is not None and knows_better(ledger, call, result))
            or (names.names.get(call.name) != call.name and not names.keeps(call.name))
        ):
            return None
        raw = call.raw
        if levels or not raw or not is_object_text(raw):
            raw, change = arguments_of(call, levels)
            if change:
                return None
        pairs.append((call, raw, Completion(output, failed, extra=result.extra)))
    return pairs


def knows_better(ledger: Mapping[str, Interaction], call: ToolCall, result: ToolResult) -> bool:
    known = ledger.get(call.id)
    if result.elided or known is None or known.result is None or known.result is result:
        return False
    return not same_outcome(known.result, result)


def compose_exchanges(
    composer: Composer, messages: tuple[Message, ...], start: int, claimed: set[str]
) -> int:
    """Compose exchanges that follow another one, as long as they are clean and something follows them too.

    Returns where the next message is. `claimed`: the ids of all calls so far, if there is a ledger.
    """
    rules, steps, ledger = composer.rules, composer.steps, composer.ledger
    names, dialect, levels = composer.names.names, rules.target.dialect, rules.argument_levels
    makers, project, stand_in = composer.makers, composer.ids.project, composer.stand_in
    adds = composer.fills or stand_in is not None
    hidden = makers.drops_all(composer.policy)
    last = len(messages) - 2 if composer.last_calls else 0
    writer: Origin | None = None
    issued = False
    begun = start
    while start < last:
        message, answer = messages[start], messages[start + 1]
        blocks, results = message.blocks, answer.blocks
        if (
            message.speaker != "model"
            or answer.speaker != "tool"
            or messages[start + 2].speaker == "tool"
            or len(results) != 1
            or not blocks
        ):
            break
        call, result = blocks[-1], results[0]
        if (
            type(call) is not ToolCall
            or type(result) is not ToolResult
            or not (call_id := call.id)
            or call_id != result.call_id
            or call.reconstructed
            or names.get(name := call.name) != name
            or type(output := result.output) is not str
            or not output
            or output.isspace()
            or not (output.isascii() or is_encodable(output))
            or result.error is not None
            or result.reason is not None
            or result.media
            or ((call_extra := call.extra) is not None and not travels(call_extra, dialect))
            or ((result_extra := result.extra) is not None and not travels(result_extra, dialect))
            or (ledger is not None and (call_id in claimed or knows_better(ledger, call, result)))
        ):
            break
        arguments = call.raw
        if (
            not arguments
            or not is_object_text(arguments)
            or (levels and arguments.count("{") + arguments.count("[") > levels)
        ) and (arguments := _unchanged_arguments(call, levels)) == "":
            break
        own: Sequence[StepBlock] | None
        dropped: Sequence[tuple[Kind, str]] = ()
        end = len(blocks) - 1
        if end == 1 and _is_plain_block(block := blocks[0]):
            own = (block,)
        elif end == 2 and hidden and _is_bare(blocks[0]) and _is_plain_block(block := blocks[1]):
            own, dropped = (block,), hidden
        else:
            own = own_blocks(composer, message, end, dropped := [])
        if own is None:
            break
        if message.origin is not writer:
            writer, issued = message.origin, makers.is_provider(message.origin)
        native_id = call.native_id if issued else ""
        wire_id = project(call_id, name, native_id)
        seal = call.seal if call.seal is None or makers.opens(call.seal) else None
        done = Completion(output) if result_extra is None else Completion(output, extra=result_extra)
        answered = AnsweredCall(wire_id, name, arguments, done, call_id, seal or stand_in, call_extra)
        if wire_id != native_id and not composer.reidentified:
            composer.reidentified = True
            composer.touch(len(steps), len(composer.repairs))
        if adds or dropped or seal is not call.seal or (native_id and wire_id != native_id):
            composer.current = start
            own = _report(composer, message, answered, own, dropped, native_id)
        steps.append(ModelStep((*own, answered)))
        if ledger is not None:
            claimed.add(call_id)
        start += 2
    composer.current = start - 2 if start > begun else composer.current
    return start


def _unchanged_arguments(call: ToolCall, levels: int) -> str:
    """The arguments as text; empty if they are changed for it."""
    given = call.arguments
    if not call.raw and not levels and type(given) is dict and (text := plain_text(given)):
        return text
    text, change = arguments_of(call, levels)
    return "" if change else text


def _is_plain_block(block: Block) -> TypeGuard[Text]:
    """Whether a block is a text that any target takes as it is."""
    return (
        type(block) is Text
        and block.seal is None
        and block.extra is None
        and not block.citations
        and bool(text := block.text)
        and not text.isspace()
        and (text.isascii() or is_encodable(text))
    )


def _is_bare(block: Block) -> bool:
    """Whether a block is a thought with nothing of a wire's own."""
    return type(block) is Reasoning and block.extra is None


def _report(
    composer: Composer,
    message: Message,
    answered: AnsweredCall,
    own: Sequence[StepBlock],
    dropped: Sequence[tuple[Kind, str]],
    native_id: str,
) -> Sequence[StepBlock]:
    """Report what was changed of an exchange; what stands before its call, with what the target insists on."""
    start, repairs, dialect = composer.current, composer.repairs, composer.rules.target.dialect
    before = len(repairs)
    path, ids, sent = f"messages[{start}]", (encodable(answered.call_id),), (answered.id,)
    if answered.seal is composer.stand_in is not None:
        composer.report_stand_in(start, answered)
    if composer.fills:
        whole: list[StepBlock] = [*own, answered]
        composer.ensure_thoughts(start, whole)
        own = whole[:-1]
    for kind, decision in dropped:
        if kind == "reasoning_dropped":
            repairs.append(Repair(kind, dialect, path, ids, sent, sent, decision))
        else:
            repairs.append(Repair(kind, dialect, path, decision=decision))
    call, at = message.blocks[-1], len(message.blocks) - 1
    if native_id and native_id != answered.id:
        composer.note_other_id(native_id, answered, start, at)
    if type(call) is ToolCall and call.seal is not None and call.seal is not answered.seal:
        composer.notes.append(Note("seal_dropped", start, at, answered))
    if composer.notes:
        composer.flush()
    if composer.untouched is None:
        composer.touch(len(composer.steps), before)
    return own
