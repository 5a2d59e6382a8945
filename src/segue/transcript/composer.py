"""Drafts made into steps a target accepts, one after another.

Everything that depends on what came before (ids given out, whose turn it is) is state of the composer, so that a
longer conversation can go on from where a shorter one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from segue.conversation.blocks import Code, Media, Reasoning, Seal, Text, ToolCall
from segue.conversation.plain import is_sayable, sayable
from segue.transcript.closure import WORDING, recover_call, settle
from segue.transcript.media import caption, describe, sort_media, written_out
from segue.transcript.projection import IdProjection, NameProjection
from segue.transcript.reasoning import opens, why_not
from segue.transcript.rules import accepts_media
from segue.transcript.speakers import CallDraft, ModelDraft, Note, UserDraft
from segue.transcript.steps import AnsweredCall, Completion, ModelStep, Said, Step, UserStep
from segue.transcript.values import arguments_of, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block, Origin, ToolResult
    from segue.conversation.interaction import Interaction
    from segue.transcript.policy import Policy
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import Rules
    from segue.transcript.speakers import Draft

OPENING = "(The conversation continues.)"
CONTINUE = "Continue."
BLANK = "(empty message)"
NO_OUTPUT = "(no output)"


class Composer:
    """Composes the steps of one transcript."""

    def __init__(self, rules: Rules, policy: Policy, ledger: Mapping[str, Interaction] | None) -> None:
        self.rules = rules
        self.policy = policy
        self.ledger = ledger
        self.steps: list[Step] = []
        self.notes: list[Note] = []
        self.ids = IdProjection(rules.ids)
        self.names = NameProjection(rules.names, policy.tool_names)
        self.calls: Mapping[str, list[CallDraft]] = {}
        self.heard = 0
        """The message whose draft is being composed."""

    def fork(self) -> Composer:
        """The same state, to go on from independently."""
        twin = Composer.__new__(Composer)
        twin.rules, twin.policy, twin.ledger = self.rules, self.policy, self.ledger
        twin.steps = self.steps.copy()
        twin.notes = self.notes.copy()
        twin.ids = self.ids.fork()
        twin.names = self.names.fork()
        twin.calls = {}
        twin.heard = self.heard
        return twin

    def compose(self, draft: Draft) -> None:
        self.heard = draft.message
        if type(draft) is ModelDraft:
            self._compose_model(draft)
        elif type(draft) is UserDraft:
            self._compose_user(draft)

    def finish(self) -> None:
        """What only the end can tell."""
        if not self.steps:
            self._open()
        last = self.steps[-1]
        if not self.rules.ends_with_model and type(last) is ModelStep and not last.calls:
            self._note("ended", self.heard)
            self.steps.append(UserStep((Text(CONTINUE),)))

    # The user's side

    def _compose_user(self, draft: UserDraft) -> None:
        message = draft.message
        said: list[Text | Media] = []
        for block in draft.blocks:
            if type(block) is Media:
                said.append(self._fit(block, self.rules.media.user, message))
            else:
                text = self._fit_text(written_out(block) if type(block) is Code else block, message)
                if text is not None:
                    said.append(text)
        if not said:
            self._note("blank_text", message, decision="a short text stands in")
            said.append(Text(BLANK))
        instruction = draft.instruction
        if instruction and self.rules.instructions == "user":
            self._note("instruction_folded", message)
            said = [Text("<system>"), *said, Text("</system>")]
            instruction = False
        self._push_user(tuple(said), instruction=instruction)

    def _push_user(self, blocks: tuple[Text | Media, ...], *, instruction: bool = False) -> None:
        last = self.steps[-1] if self.steps else None
        if type(last) is ModelStep and self.rules.bridge and last.calls:
            self._note("bridged", self.heard)
            self.steps.append(ModelStep((Text(self.rules.bridge),)))
        elif type(last) is UserStep and self.rules.alternates and last.instruction == instruction:
            self.steps[-1] = UserStep((*last.blocks, *blocks), instruction)
            return
        self.steps.append(UserStep(blocks, instruction))

    def _open(self) -> None:
        self._note("opened", self.heard)
        self.steps.append(UserStep((Text(OPENING),)))

    # The model's side

    def _compose_model(self, draft: ModelDraft) -> None:
        said: list[Said] = []
        shown_by_user: list[Text | Media] = []
        thoughts: list[Reasoning] | None = None
        for item in draft.items:
            if type(item) is CallDraft:
                said.append(self._answer(item, draft.origin, shown_by_user))
            elif type(item) is Reasoning:
                if thoughts is None:
                    thoughts = self._thoughts(draft)
                if thoughts:
                    said.append(thoughts.pop())
            else:
                block = self._fit_said(item, draft.message)
                if block is not None:
                    said.append(block)
        if all(type(block) is Reasoning for block in said):
            if draft.items:
                self._note("message_dropped", draft.message)
            return
        self._push_model(draft, said)
        if shown_by_user:
            self._push_user(tuple(shown_by_user))

    def _push_model(self, draft: ModelDraft, said: list[Said]) -> None:
        rules = self.rules
        reasoning = rules.reasoning
        if draft.calls:
            if rules.calls_last and len(said) > 1:
                said = self._ordered(draft, said)
            if reasoning.call_seal:
                said = self._sealed(draft, said)
        if reasoning.required == "all" or (draft.calls and reasoning.required == "calls"):
            said = self._filled(draft, said)
        if rules.calls_per_step and len(draft.calls) > rules.calls_per_step:
            self._push_split(draft, said)
        else:
            self._append_model(tuple(said))

    def _append_model(self, blocks: tuple[Said, ...]) -> None:
        """A reply stored in pieces is one message, also where a target would take several."""
        last = self.steps[-1] if self.steps else None
        if type(last) is ModelStep and not last.calls:
            self.steps[-1] = ModelStep((*last.blocks, *blocks))
            return
        if last is None and self.rules.opens_with_user:
            self._open()
        self.steps.append(ModelStep(blocks))

    def _ordered(self, draft: ModelDraft, said: list[Said]) -> list[Said]:
        """Calls at the end."""
        calls = [block for block in said if type(block) is AnsweredCall]
        ordered = [block for block in said if type(block) is not AnsweredCall] + calls
        if any(one is not other for one, other in zip(ordered, said, strict=True)):
            self._note("calls_reordered", draft.message)
        return ordered

    def _push_split(self, draft: ModelDraft, said: list[Said]) -> None:
        """As many steps as it takes, each with as many calls as the target takes."""
        self._note("calls_split", draft.message)
        portion: list[Said] = []
        calls = 0
        for block in said:
            if type(block) is AnsweredCall:
                if calls == self.rules.calls_per_step:
                    self._append_model(tuple(portion))
                    portion, calls = [], 0
                calls += 1
            portion.append(block)
        self._append_model(tuple(portion))

    def _thoughts(self, draft: ModelDraft) -> list[Reasoning]:
        """The thoughts of a message that may be sent, last one first: all of them or none."""
        thoughts = [item for item in draft.items if type(item) is Reasoning]
        for thought in thoughts:
            ground = why_not(thought, draft.origin, self.rules, self.policy)
            if ground:
                self._note("reasoning_dropped", draft.message, decision=ground)
                return []
        target = self.rules.target
        return [
            thought if thought.seal is None or opens(thought.seal, target) else Reasoning(thought.text)
            for thought in reversed(thoughts)
        ]

    def _filled(self, draft: ModelDraft, said: list[Said]) -> list[Said]:
        if any(type(block) is Reasoning for block in said):
            return said
        self._note("reasoning_filled", draft.message)
        return [Reasoning(self.rules.reasoning.filler), *said]

    def _sealed(self, draft: ModelDraft, said: list[Said]) -> list[Said]:
        index = next(index for index, block in enumerate(said) if type(block) is AnsweredCall)
        first = said[index]
        if type(first) is not AnsweredCall or first.seal is not None:
            return said
        self._note("call_seal_filled", draft.message, call=draft.calls[0])
        seal = Seal(self.rules.target, self.rules.reasoning.call_seal, "thought")
        stamped = AnsweredCall(first.id, first.name, first.arguments, first.completion, first.call_id, seal)
        return [*said[:index], stamped, *said[index + 1 :]]

    # Calls and completions

    def _answer(
        self, draft: CallDraft, speaker: Origin | None, shown_by_user: list[Text | Media]
    ) -> AnsweredCall:
        target = self.rules.target
        ledger = self.ledger
        if ledger is not None and (not draft.key or len(self.calls.get(draft.key, ())) > 1):
            ledger = None  # an entry of the ledger speaks for exactly one call
        call = draft.call
        if call.reconstructed:
            call = self._recovered(draft, ledger)
        name = self.names.project(call.name)
        own = speaker is not None and (
            speaker is target
            or (
                speaker.dialect == target.dialect
                and speaker.provider == target.provider
                and speaker.endpoint == target.endpoint
            )
        )
        native_id = call.native_id if own else ""
        wire_id = draft.wire_id = self.ids.project(draft.key, name, native_id)
        arguments, change = arguments_of(call)
        if change or name != call.name or (native_id and wire_id != native_id):
            self._note_respelling(draft, call, name, native_id, change)
        completion = self._complete(
            draft, settle(draft, ledger, self.policy, self.notes), name, shown_by_user
        )
        seal = call.seal
        if seal is not None and not opens(seal, target):
            self._note("seal_dropped", draft.message, draft.block, draft)
            seal = None
        return AnsweredCall(wire_id, name, arguments, completion, call.id, seal)

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
            self._note("name_replaced", *at, draft, decision=f'"{sayable(call.name)}" is sent as "{name}"')
        if native_id and draft.wire_id != native_id and self.rules.ids.form != "indexed":
            self._note("id_replaced", *at, draft, decision=f'"{sayable(native_id)}" is taken or not legal')

    def _complete(
        self, draft: CallDraft, result: ToolResult, name: str, shown_by_user: list[Text | Media]
    ) -> Completion:
        text, exact = say(result.output)
        failed = result.error is not None or result.reason is not None
        if failed:
            text = _failure(result, text)
        if not exact:
            self._note("value_made_safe", draft.message, draft.block, draft, decision="in the result")
        if not result.media:
            if not text or text.isspace():
                text = self._filled_output(draft, text, failed=failed)
            return Completion(text, failed, (), result.reason)
        stay, move, lost = sort_media(result.media, self.rules.media, failed=failed)
        at = draft.message, draft.block
        for media in move:
            self._note("media_moved", *at, draft)
            shown_by_user += [caption(media, name, draft.wire_id), media]
        for media in lost:
            self._note("media_described", *at, draft)
            text = f"{text}\n{describe(media).text}" if text else describe(media).text
        if not text and not stay:
            text = caption(move[0], name, draft.wire_id).text
        return Completion(text, failed, tuple(stay), result.reason)

    def _filled_output(self, draft: CallDraft, text: str, *, failed: bool) -> str:
        if self.rules.blank_text and not failed:
            return text
        self._note("blank_text", draft.message, draft.block, draft, decision="an empty result says so")
        return NO_OUTPUT

    # Pieces

    def _fit(self, media: Media, allowed: frozenset[str], message: int) -> Text | Media:
        if accepts_media(allowed, self.rules.media, media):
            return media
        self._note("media_described", message)
        return describe(media)

    def _fit_said(self, block: Block, message: int) -> Text | Media | None:
        """A piece of a model's message that is neither a call nor a thought."""
        match block:
            case Text():
                return self._fit_text(block, message)
            case Code():
                return self._fit_text(written_out(block), message)
            case Media():
                return self._fit(block, self.rules.media.model, message)
            case _:  # calls and results were taken out by the listener
                return None

    def _fit_text(self, block: Text, message: int) -> Text | None:
        """The text as the target takes it; nothing if it is blank and the target refuses blanks."""
        text, seal = block.text, block.seal
        if seal is not None:
            if opens(seal, self.rules.target) and is_sayable(text):
                return block
            self._note("seal_dropped", message)
            block = Text(text)
        if not text or text.isspace():
            if self.rules.blank_text:
                return block
            self._note("blank_text", message, decision="left out")
            return None
        if is_sayable(text):
            return block
        self._note("value_made_safe", message)
        return Text(sayable(text))

    def _note(
        self, kind: Kind, message: int, block: int = -1, call: CallDraft | None = None, decision: str = ""
    ) -> None:
        self.notes.append(Note(kind, message, block, call, decision=decision))


def _failure(result: ToolResult, output: str) -> str:
    """What the model reads of a call that did not succeed."""
    error = sayable(result.error) if result.error is not None else ""
    if error and output:
        return f"{error}\n{output}"
    if error or output:
        return error or output
    return WORDING[result.reason] if result.reason is not None else ""
