"""Who said what: a history, however broken, heard as drafts of steps.

Blocks are given to the speaker they belong to, whatever message they lie in. A result is paired with its call by id
and position together: within the calls that bear its id, those of the latest batch come first, in order; where ids
are missing, order and name decide. So reused, equal, empty and colliding ids all find their partner. Ids that are
both present and different never pair.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from segue.conversation.blocks import (
    Block,
    Code,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    is_real,
)
from segue.transcript.drafts import CallDraft, Draft, ModelDraft, Note, ResultDraft, UserDraft
from segue.transcript.values import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.message import Message


class Listener:
    """Hears messages one after another; afterwards `drafts` and `notes` tell what was understood."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.notes: list[Note] = []
        self.calls: dict[str, list[CallDraft]] = {}
        self.has_orphans = False
        """Whether some result found no call among the messages heard."""
        self._open: dict[str, list[CallDraft]] = {}
        self._batch: ModelDraft | None = None
        self._orphans: list[CallDraft] = []

    def hear(self, messages: Sequence[Message], start: int = 0, end: int | None = None) -> None:
        for index in range(start, len(messages) if end is None else end):
            message = messages[index]
            speaker = message.speaker
            if speaker == "model":
                self._hear_model(index, message)
            elif speaker == "tool":
                self._hear_tool(index, message)
            else:
                self._hear_user(index, message)
        if self._orphans:
            self._reunite()

    def _hear_model(self, index: int, message: Message) -> None:
        draft = self._continued(message)
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                self._corrected(index, position)
                self._pair(block, index, position)
                draft = None
                continue
            if draft is None:
                draft = self._batch = ModelDraft(index, message.origin)
                self.drafts.append(draft)
            if type(block) is ToolCall:
                self._add_call(draft, block, index, position)
            else:
                draft.items.append(block)

    def _continued(self, message: Message) -> ModelDraft | None:
        """The draft that this message goes on with: a reply stored in pieces, or parallel calls stored apart."""
        last = self.drafts[-1] if self.drafts else None
        if type(last) is not ModelDraft or last.orphan or last.heard >= 0 or last.origin != message.origin:
            return None
        if last.calls and not all(type(block) is ToolCall for block in message.blocks):
            return None
        return last

    def _add_call(self, draft: ModelDraft, call: ToolCall, index: int, position: int) -> None:
        key = call.id or call.native_id
        made = CallDraft(call, key, draft, index, position)
        draft.items.append(made)
        draft.calls.append(made)
        known = self.calls.get(key)
        if known is None:
            self.calls[key] = [made]
            return
        known.append(made)
        if key in self._open:
            self._open[key].append(made)
        if draft.waiting is not None:
            draft.queue(key).append(made)

    def _hear_tool(self, index: int, message: Message) -> None:
        beside: list[Text | Media | Code] = []
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                self._pair(block, index, position)
            else:
                self._hear_misplaced(block, index, position, beside)
        if beside:
            self.drafts.append(UserDraft(index, beside))

    def _hear_user(self, index: int, message: Message) -> None:
        said: list[Text | Media | Code] = []
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                self._corrected(index, position)
                self._pair(block, index, position)
            else:
                self._hear_misplaced(block, index, position, said)
        if said or not message.blocks:
            self.drafts.append(UserDraft(index, said or [Text("")], instruction=message.instruction))

    def _hear_misplaced(
        self, block: Block, index: int, position: int, beside: list[Text | Media | Code]
    ) -> None:
        """A block outside a model's message: text and media stay, a call or a thought is the model's."""
        if type(block) is ToolCall:
            self._hear_misplaced_call(block, index, position)
        elif type(block) is Reasoning:
            self.notes.append(Note("reasoning_dropped", index, position, decision="not in a model's message"))
        elif type(block) is not ToolResult:
            beside.append(block)

    def _hear_misplaced_call(self, call: ToolCall, index: int, position: int) -> None:
        key = call.id or call.native_id
        echoed = self._last_open(key, call.name) if key else None
        if echoed is not None:
            self.notes.append(
                Note("duplicate_call_dropped", index, position, echoed, decision="echo of an open call")
            )
            return
        self._corrected(index, position)
        last = self.drafts[-1] if self.drafts else None
        if type(last) is not ModelDraft or last.orphan or last.heard >= 0 or last.message != index:
            last = self._batch = ModelDraft(index, None)
            self.drafts.append(last)
        self._add_call(last, call, index, position)

    def _corrected(self, index: int, position: int) -> None:
        self.notes.append(Note("speaker_corrected", index, position))

    def _pair(self, result: ToolResult, index: int, position: int) -> None:
        key = result.call_id or result.native_id
        known = self.calls.get(key) if key else None
        call: CallDraft | None
        if known is None:
            call = self._by_position(result, key)
        elif len(known) == 1:
            call = known[0]
        else:
            call = self._among(known, result, key)
        if call is None:
            self._keep_orphan(result, key, index, position)
            return
        draft = call.draft
        if draft is not self.drafts[-1]:
            self.notes.append(Note("result_moved", index, position, call))
        elif call.order < draft.heard:
            self.notes.append(Note("result_moved", index, position, call, decision="put into call order"))
        self._attach(call, ResultDraft(result, index, position))

    def _attach(self, call: CallDraft, result: ResultDraft) -> None:
        call.results.append(result)
        call.draft.heard = call.order
        if not call.answered and is_real(result.result):
            call.answered = True

    def _among(self, known: list[CallDraft], result: ToolResult, key: str) -> CallDraft:
        """Which of several calls with one id this result answers."""
        chosen = self._next_in_batch(key, result.name)
        if chosen is None and not any(same_outcome(held.result, result) for held in known[-1].results):
            chosen = self._last_open(key, result.name)
        return chosen or known[-1]

    def _by_position(self, result: ToolResult, key: str) -> CallDraft | None:
        """No call bears this id: where one side has no id at all, order and name decide."""
        chosen = self._next_in_batch("", result.name)
        if chosen is None and not key:
            chosen = self._next_of_any_key(result.name) or self._last_open("", result.name)
        return chosen

    def _next_in_batch(self, key: str, name: str) -> CallDraft | None:
        """The first call of the latest batch with this key that has no result yet, its name agreeing."""
        if self._batch is None:
            return None
        queue = self._batch.queue(key)
        while queue and queue[0].results:
            queue.popleft()
        return next((call for call in queue if not call.results and _agree(call, name)), None)

    def _next_of_any_key(self, name: str) -> CallDraft | None:
        calls = self._batch.calls if self._batch is not None else []
        return next((call for call in calls if not call.results and _agree(call, name)), None)

    def _last_open(self, key: str, name: str) -> CallDraft | None:
        """The latest call with this key that no tool has answered, its name agreeing."""
        stack = self._open.get(key)
        if stack is None:
            stack = self._open[key] = list(self.calls.get(key, ()))
        while stack and stack[-1].answered:
            stack.pop()
        return next((call for call in reversed(stack) if not call.answered and _agree(call, name)), None)

    def _keep_orphan(self, result: ToolResult, key: str, index: int, position: int) -> None:
        last = self.drafts[-1] if self.drafts else None
        if type(last) is not ModelDraft or not last.orphan:
            last = ModelDraft(index, None, orphan=True)
            self.drafts.append(last)
        queue = last.queue(key)
        if not queue or not key:
            call = ToolCall(result.call_id, result.name, native_id=result.native_id, reconstructed=True)
            made = CallDraft(call, key, last, index, position)
            last.items.append(made)
            last.calls.append(made)
            queue.append(made)
            self._orphans.append(made)
        self._attach(queue[-1], ResultDraft(result, index, position))

    def _reunite(self) -> None:
        """Results that were stored before their call: the call was heard by now."""
        later: dict[str, deque[CallDraft]] = {}
        reunited: set[CallDraft] = set()
        for orphan in self._orphans:
            candidates = later.setdefault(orphan.key, deque(self.calls.get(orphan.key, ())))
            while candidates and (candidates[0].answered or candidates[0].message < orphan.message):
                candidates.popleft()
            call = next(
                (call for call in candidates if not call.answered and _agree(call, orphan.call.name)), None
            )
            at = orphan.message, orphan.block
            if call is None:
                self.has_orphans = True
                self.notes.append(Note("call_reconstructed", *at, orphan, decision="no call has this id"))
                continue
            for result in orphan.results:
                self._attach(call, result)
            self.notes.append(Note("result_moved", *at, call, decision="it was stored before its call"))
            reunited.add(orphan)
        self._orphans = []
        for draft in {id(orphan.draft): orphan.draft for orphan in reunited}.values():
            draft.calls = [call for call in draft.calls if call not in reunited]
            draft.items = list(draft.calls)


def _agree(call: CallDraft, name: str) -> bool:
    return not name or not call.call.name or call.call.name == name


def same_outcome(one: ToolResult, other: ToolResult) -> bool:
    """Whether two results tell the model the same."""
    return one is other or (one.error == other.error and text_of(one.output) == text_of(other.output))
