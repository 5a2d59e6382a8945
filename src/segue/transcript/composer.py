"""Drafts made into steps a target accepts, one after another.

Everything that depends on what came before (ids given out, whose turn it is) is state of the composer, so that a
longer conversation can continue where a shorter one stopped.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall
from segue.conversation.json_safe import encodable
from segue.transcript.blocks.foreign_fields import (
    folded,
    joined,
    losses,
    may_end,
    report_losses,
    runs,
    stays_in_place,
    travels,
    uncontained,
)
from segue.transcript.blocks.shown_blocks import completion_of, fit_block
from segue.transcript.blocks.value_text import arguments_of
from segue.transcript.closure import recover_call, settle
from segue.transcript.drafts import CallDraft, ModelDraft, Note, UserDraft, repair_from, repair_of
from segue.transcript.projection import IdProjection, offered_names
from segue.transcript.reasoning import Dropped, Makers, lacks_thought, without_ids
from segue.transcript.steps import AnsweredCall, Completion, ModelStep, Step, StepBlock, UserStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Code, Origin, ToolResult
    from segue.conversation.interaction import Interaction
    from segue.transcript.drafts import Draft
    from segue.transcript.policy import Policy
    from segue.transcript.repairs import Kind, Repair
    from segue.transcript.rules import Rules

OPENING = "(The conversation continues.)"
CONTINUE = "Continue."
BLANK = "(empty message)"
_HARMLESS = frozenset({"reasoning_dropped", "ended"})
"""Repairs that change nothing of what a bound seal is bound to."""


class Composer:
    """Composes the steps of one transcript."""

    def __init__(self, rules: Rules, policy: Policy, ledger: Mapping[str, Interaction] | None) -> None:
        self.rules = rules
        self.policy = policy
        self.ledger = ledger
        self.steps: list[Step] = []
        self.notes: list[Note] = []
        """What was changed since the last flush."""
        self.repairs: list[Repair] = []
        self.flushed = 0
        """How many of them were there when notes were reported last."""
        self.ids = IdProjection(rules.ids)
        self.names = offered_names(rules.names, policy.tool_names).fork()
        self.calls: Mapping[str, list[CallDraft]] = {}
        self.open: set[str] = set()
        """Keys of calls that the history gives no real result: one may still come."""
        self.current = 0
        """The message whose draft is being composed."""
        self.last_calls = 0
        """How many calls the last step holds."""
        self.has_thoughts = False
        self.torn = -1
        """The last step that lost thoughts of its own, which later ones of the target are bound to."""
        self.unbound: list[Dropped] = []
        """Thoughts that were dropped because their seal was made under another prefix."""
        self.reidentified = False
        """Whether some call was given an id that the target does not know it by."""
        self.untouched: int | None = None
        """How many steps stand before the first that took a repair; None if none did."""
        reasoning = rules.reasoning
        self.fills = reasoning.required != "none"
        """Whether a message with calls must hold some reasoning."""
        self.stand_in = Seal(rules.target, reasoning.call_seal, "thought") if reasoning.call_seal else None
        """For the seal that the target wants on the first call of a step."""
        self.filler = Reasoning(reasoning.filler)
        self.makers = Makers(rules)

    def fork(self) -> Composer:
        """The same state, to continue from independently."""
        twin = Composer.__new__(Composer)
        twin.rules, twin.policy, twin.ledger = self.rules, self.policy, self.ledger
        twin.steps = self.steps.copy()
        twin.notes = []
        twin.repairs, twin.flushed = self.repairs.copy(), self.flushed
        twin.has_thoughts, twin.untouched = self.has_thoughts, self.untouched
        twin.torn, twin.reidentified, twin.unbound = self.torn, self.reidentified, self.unbound.copy()
        twin.ids = self.ids.fork()
        twin.names = self.names.fork()
        twin.calls = {}
        twin.open = self.open.copy()
        twin.current, twin.last_calls, twin.fills = self.current, self.last_calls, self.fills
        twin.filler, twin.stand_in = self.filler, self.stand_in
        twin.makers = Makers(self.rules)
        return twin

    def compose(self, draft: Draft) -> None:
        self.current = draft.message
        if type(draft) is ModelDraft:
            self._compose_model(draft)
        else:
            self._compose_user(draft)

    def flush(self) -> None:
        """Report the repairs noted so far, in the order of the messages: all ids are known by now."""
        if self.notes:
            dialect = self.rules.target.dialect
            noted = [repair_from(note, dialect) for note in sorted(self.notes, key=attrgetter("message"))]
            if len(self.repairs) > self.flushed:  # those that were reported at once stand among them
                noted = sorted([*self.repairs[self.flushed :], *noted], key=_message_of)
                del self.repairs[self.flushed :]
            self.repairs += noted
            self.notes.clear()
        self.flushed = len(self.repairs)

    def touch(self, steps: int, repairs: int) -> None:
        """Remember behind how many steps the first repair was made, of those that change what a bound seal is bound to;
        `repairs`: how many there were before."""
        if self.untouched is None and (
            self.reidentified or any(repair.kind not in _HARMLESS for repair in self.repairs[repairs:])
        ):
            self.untouched = steps

    def finish(self) -> None:
        """Close the transcript as the target wants it closed."""
        if not self.steps:
            self._open()
        last = self.steps[-1]
        if type(last) is not ModelStep or self.last_calls:
            return
        if not may_end(self.rules, last):
            self._note("ended", self.current)
            self.steps.append(UserStep((Text(CONTINUE),)))
            return
        end = last.blocks[-1]
        if not self.rules.ends_with_space and type(end) is Text and end.text[-1:].isspace():
            self._note("blank_text", self.current, decision="dropped at the end of the last message")
            trimmed = structs.replace(end, text=end.text.rstrip())
            self.steps[-1] = ModelStep((*last.blocks[:-1], trimmed))

    # The user's side

    def _compose_user(self, draft: UserDraft) -> None:
        message = draft.message
        blocks: list[Text | Media] = []
        for block in draft.blocks:
            shown = self._fit(block, self.rules.media.user, message)
            if shown is not None:
                blocks.append(shown)
        if not blocks:
            self._note("blank_text", message, decision="a short text stands in")
            blocks.append(Text(BLANK))
        instruction = draft.instruction
        if instruction and not stays_in_place(self.rules, self.steps, self.last_calls, blocks):
            self._note("instruction_folded", message)
            blocks, instruction = folded(blocks), False
        elif instruction and (media := [block for block in blocks if type(block) is Media]):
            self._note("instruction_folded", message, decision="its media is sent as the user's")
            if texts := tuple(block for block in blocks if type(block) is Text):
                self.push_user(texts, instruction=True)
            blocks, instruction = [*uncontained(media)], False
        self.push_user(tuple(blocks), instruction=instruction)

    def push_user(self, blocks: tuple[Text | Media, ...], *, instruction: bool = False) -> None:
        last = self.steps[-1] if self.steps else None
        calls, self.last_calls = self.last_calls, 0
        if calls and self.rules.bridge:
            if type(last) is ModelStep:
                self.notes.append(Note("bridged", self.current, calls=last.calls))
            self.steps.append(ModelStep((Text(self.rules.bridge),)))
        elif type(last) is UserStep and last.instruction and self.rules.instructions == "returned":
            # A note may not stand before a user's message after all.
            self._note("instruction_folded", self.current)
            self.steps[-1] = UserStep((*folded(last.blocks), *blocks))
            return
        elif type(last) is UserStep and self.rules.alternates and last.instruction == instruction:
            self.steps[-1] = UserStep((*last.blocks, *blocks), instruction)
            return
        self.steps.append(UserStep(blocks, instruction))

    def _open(self) -> None:
        self._note("opened", self.current)
        self.steps.append(UserStep((Text(OPENING),)))

    # The model's side

    def _compose_model(self, draft: ModelDraft) -> None:
        blocks: list[StepBlock] = []
        shown_by_user: list[Text | Media] = []
        thoughts: list[Reasoning] | None = None
        for item in draft.items:
            if type(item) is CallDraft:
                blocks.append(self._answer(item, draft.origin, shown_by_user))
            elif type(item) is Reasoning:
                if thoughts is None:
                    thoughts = self._thoughts(draft)
                if thoughts:
                    blocks.append(thoughts.pop())
            else:
                shown = self._fit(item, self.rules.media.model, draft.message)
                if shown is not None:
                    blocks.append(shown)
        if blocks and type(blocks[-1]) is Reasoning and not (self.rules.reasoning.last or draft.calls):
            # All of a message's thoughts or none: some would be taken for altered ones.
            blocks = [block for block in blocks if type(block) is not Reasoning]
            thoughts, self.torn = [], len(self.steps)
            self._note("reasoning_dropped", draft.message, decision="nothing follows it")
        if thoughts == [] and not any(type(block) is Reasoning for block in blocks):
            blocks = without_ids(blocks, self.rules.reasoning)
        if all(type(block) is Reasoning for block in blocks):
            if draft.items:
                self.notes.append(Note("message_dropped", draft.message, calls=tuple(draft.calls)))
            return
        self.push_model(draft.message, blocks, len(draft.calls))
        if shown_by_user:
            self.push_user(tuple(shown_by_user))

    def push_model(self, message: int, blocks: list[StepBlock], calls: int) -> None:
        """Add a model's message, as far as it depends on nothing but the rules."""
        rules = self.rules
        if calls and rules.calls_last and len(blocks) > calls:
            blocks = self._ordered(message, blocks)
        if rules.calls_per_step and calls > rules.calls_per_step:
            self._push_split(message, blocks)
        else:
            self._push_step(message, blocks, calls)

    def _push_step(self, message: int, blocks: list[StepBlock], calls: int) -> None:
        """A reply stored in pieces is one message, also where a target would take several."""
        rules = self.rules
        if calls and self.stand_in is not None:
            self._seal_first_call(message, blocks)
        if rules.reasoning.required == "all" or (calls and rules.reasoning.required == "calls"):
            self.ensure_thoughts(message, blocks)
        last = self.steps[-1] if self.steps else None
        if type(last) is not ModelStep or self.last_calls:
            if rules.opens_with_user and all(map(_is_note, self.steps)):
                self._open()
            self.steps.append(ModelStep(tuple(blocks)))
        elif may_end(rules, last) or not any(map(_is_sealed_thought, blocks)):
            self.steps[-1] = ModelStep((*last.blocks, *blocks))
        else:
            # The model thought behind the message that was sent to end what came before: it belongs there again.
            self._note("ended", self.current)
            self.steps += [UserStep((Text(CONTINUE),)), ModelStep(tuple(blocks))]
        self.last_calls = calls

    def _ordered(self, message: int, blocks: list[StepBlock]) -> list[StepBlock]:
        """Calls at the end."""
        first = next(index for index, block in enumerate(blocks) if type(block) is AnsweredCall)
        if all(type(block) is AnsweredCall for block in blocks[first:]):
            return blocks
        before = [block for block in blocks[:first] if type(block) is not AnsweredCall]
        behind = [block for block in blocks[first:] if type(block) is not AnsweredCall]
        calls = [block for block in blocks if type(block) is AnsweredCall]
        self.notes.append(Note("calls_reordered", message, calls=tuple(calls)))
        for block in behind:
            extra = block.extra
            if (
                extra is not None and extra.dialect == self.rules.target.dialect
            ):  # for others it is reported anyway
                self.notes += [Note(kind, message, decision=text) for kind, text in losses(extra.container)]
        return [*joined(before, behind), *calls]

    def _push_split(self, message: int, blocks: list[StepBlock]) -> None:
        """As many steps as it takes, each with as many calls as the target takes."""
        moved = tuple(block for block in blocks if type(block) is AnsweredCall)
        self.notes.append(Note("calls_split", message, calls=moved))
        portion: list[StepBlock] = []
        calls = 0
        for block in blocks:
            if type(block) is AnsweredCall:
                if calls == self.rules.calls_per_step:
                    self._push_step(message, portion, calls)
                    portion, calls = [], 0
                calls += 1
            portion.append(block)
        self._push_step(message, portion, calls)

    def _thoughts(self, draft: ModelDraft) -> list[Reasoning]:
        """The thoughts of a message that may be sent, last one first: all of them or none."""
        thoughts = [item for item in draft.items if type(item) is Reasoning]
        for thought in thoughts:
            ground = self.makers.drop_reason(thought, draft.origin, self.policy)
            if ground:
                note = Note("reasoning_dropped", draft.message, decision=ground, calls=tuple(draft.calls))
                self.notes.append(note)
                return []
        self.has_thoughts = True
        return [
            thought if thought.seal is None or self.makers.opens(thought.seal) else Reasoning(thought.text)
            for thought in reversed(thoughts)
        ]

    def ensure_thoughts(self, message: int, blocks: list[StepBlock]) -> None:
        """Put in what stands for the reasoning that the target insists on, and that is not there."""
        if not self.has_thoughts or not any(type(block) is Reasoning for block in blocks):
            blocks.insert(0, self.fill(message, blocks))
            return
        # What came as several messages goes back so, and the target insists on a thought in each.
        start = 0
        for run in [*runs(tuple(blocks), self.rules.target.dialect)]:
            if lacks_thought(run, self.rules.reasoning):
                blocks.insert(start, self.fill(message, [*run]))
                start += 1
            start += len(run)

    def fill(self, message: int, blocks: list[StepBlock]) -> Reasoning:
        """What stands for the reasoning that the target insists on."""
        # One for nearly every message of a foreign history: reported at once, without a note.
        calls = [block for block in blocks if type(block) is AnsweredCall]
        dialect = self.rules.target.dialect
        self.repairs.append(repair_of("reasoning_filled", dialect, f"messages[{message}]", calls))
        return self.filler

    def _seal_first_call(self, message: int, blocks: list[StepBlock]) -> None:
        for index, block in enumerate(blocks):
            if type(block) is AnsweredCall:
                if block.seal is None:
                    blocks[index] = structs.replace(block, seal=self.stand_in)
                    self.report_stand_in(message, block)
                return

    def report_stand_in(self, message: int, call: AnsweredCall) -> None:
        dialect, path, came = self.rules.target.dialect, f"messages[{message}]", call.extra
        if (
            came is not None
            and came.dialect == dialect
            and came.form.get(self.rules.reasoning.call_seal_field)
        ):
            return
        self.repairs.append(repair_of("call_seal_filled", dialect, path, (call,)))

    # Calls and completions

    def _answer(
        self, draft: CallDraft, speaker: Origin | None, shown_by_user: list[Text | Media]
    ) -> AnsweredCall:
        ledger = self.ledger
        if ledger is not None and (not draft.call.id or len(self.calls.get(draft.key, ())) > 1):
            ledger = None  # an entry of the ledger stands for exactly one call
        if not draft.answered:
            self.open.add(draft.key)
        call = draft.call
        if call.reconstructed:
            call = self._recovered(draft, ledger)
        name = self.names.project(call.name)
        native_id = call.native_id if self.makers.is_provider(speaker) else ""
        wire_id = draft.wire_id = self.ids.project(draft.key, name, native_id)
        self.reidentified = self.reidentified or wire_id != native_id
        arguments, change = arguments_of(call, self.rules.argument_levels)
        if change or name != call.name or (native_id and wire_id != native_id):
            self._note_respelling(draft, call, name, native_id, change)
        completion = self._complete(
            draft, settle(draft, ledger, self.policy, self.notes), name, shown_by_user
        )
        seal = call.seal
        if seal is not None and not self.makers.opens(seal):
            self._note("seal_dropped", draft.message, draft.block, draft)
            seal = None
        extra = call.extra
        if not travels(extra, self.rules.target.dialect):
            report_losses(extra, self.notes, draft)
            extra = None
        return AnsweredCall(wire_id, name, arguments, completion, call.id, seal, extra)

    def _recovered(self, draft: CallDraft, ledger: Mapping[str, Interaction] | None) -> ToolCall:
        call = recover_call(draft.call, ledger)
        if call is draft.call:
            return ToolCall(call.id, call.name, {"arguments_unknown": True}, native_id=call.native_id)
        self._note("call_recovered", draft.message, draft.block, draft, decision="the ledger holds it")
        return call

    def _note_respelling(
        self, draft: CallDraft, call: ToolCall, name: str, native_id: str, change: Kind | Literal[""]
    ) -> None:
        at = draft.message, draft.block
        if change:
            self._note(change, *at, draft, decision="in the arguments")
        if name != call.name:
            self._note("name_replaced", *at, draft, decision=f'"{encodable(call.name)}" is sent as "{name}"')
        if native_id and draft.wire_id != native_id:
            self.note_other_id(native_id, draft, *at)

    def note_other_id(self, native_id: str, call: CallDraft | AnsweredCall, message: int, block: int) -> None:
        """The target's own id could not be given back to it; where ids are numbers, that is no news."""
        if self.rules.ids.form != "indexed":
            decision = f'"{encodable(native_id)}" is taken or not legal'
            self._note("id_replaced", message, block, call, decision)

    def _complete(
        self, draft: CallDraft, result: ToolResult, name: str, shown_by_user: list[Text | Media]
    ) -> Completion:
        completion, shown, changes = completion_of(result, name, draft.wire_id, self.rules)
        for kind, decision in changes:
            self._note(kind, draft.message, draft.block, draft, decision)
        shown_by_user += shown
        if travels(completion.extra, self.rules.target.dialect):
            return completion
        report_losses(completion.extra, self.notes, draft)
        return structs.replace(completion, extra=None)

    def _fit(self, block: Text | Media | Code, allowed: frozenset[str], message: int) -> Text | Media | None:
        fitted, changes = fit_block(block, allowed, self.makers)
        for kind, decision in changes:
            self._note(kind, message, decision=decision)
        return fitted

    def _note(
        self,
        kind: Kind,
        message: int,
        block: int = -1,
        call: CallDraft | AnsweredCall | None = None,
        decision: str = "",
    ) -> None:
        self.notes.append(Note(kind, message, block, call, decision=decision))


def _message_of(repair: Repair) -> int:
    """The number in its path, `messages[7].blocks[1]`; what concerns no message comes first."""
    number = repair.path.partition("[")[2].partition("]")[0]
    return int(number) if number else -1


def _is_note(step: Step) -> bool:
    """Whether it is the operator's: notes that lead all steps are part of the system prompt."""
    return type(step) is UserStep and step.instruction


def _is_sealed_thought(block: StepBlock) -> bool:
    return type(block) is Reasoning and block.seal is not None
