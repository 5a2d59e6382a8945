"""The fast path of `render` (see fast_paths) for a run of exchanges: replies with one call each, and its result.

That is most of what an agent sends, so here every step counts: what the composer has is looked up once for the whole run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from segue.conversation.blocks import Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable, is_encodable
from segue.transcript.drafts import Note
from segue.transcript.fast_render import knows_better, own_blocks
from segue.transcript.own_fields import travels
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, Completion, ModelStep
from segue.transcript.value_text import arguments_of, is_object_text, plain_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Message
    from segue.transcript.composer import Composer
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import StepBlock


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
        if end == 1 and _is_plain(block := blocks[0]):
            own = (block,)
        elif end == 2 and hidden and _is_bare(blocks[0]) and _is_plain(block := blocks[1]):
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


def _is_plain(block: Block) -> TypeGuard[Text]:
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
