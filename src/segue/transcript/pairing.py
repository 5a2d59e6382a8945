"""Pairing of calls and results: a history, however broken, becomes drafts of steps.

Blocks are given to the speaker they belong to, whatever message they lie in. A result is paired with its call by id
and position together: within the calls that bear its id, the first open one of the latest batch; where ids are
missing, order and name decide. So reused, equal, empty and colliding ids all find their partner. Ids that are
both present and different never pair.

For example, a client that names the first call of every turn `call_0` sends that id once a turn. By the id alone every result would
go to the first of these calls; by position alone a result that was moved or lost would shift all that follow. Together they find the
open `call_0` of the turn at hand.
"""

from __future__ import annotations

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
from segue.errors import TranscriptError
from segue.transcript.blocks.outcomes import is_placeholder, outcome_of, same_outcome, tells_nothing
from segue.transcript.blocks.value_text import arguments_of
from segue.transcript.drafts import CallDraft, CallQueue, Draft, ModelDraft, Note, ResultDraft, UserDraft

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from segue.conversation.message import Message


_SHOWN_BLOCKS = (Text, Media, Code)
_MODEL_BLOCKS = (*_SHOWN_BLOCKS, Reasoning)


class DraftBuilder:
    """Takes messages one after another; `drafts` and `notes` hold the result."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.notes: list[Note] = []
        self.joined_to_text: list[Note] = []
        """Messages with calls that became one with a text before them."""
        self.joined_to_calls: list[Note] = []
        """The same with calls before them."""
        self.calls: dict[str, list[CallDraft]] = {}
        self.reaches_back = False
        """Whether some result bears the id of no call before it, or found none to take it."""
        self._open: dict[str, CallQueue] = {}
        self._batch: ModelDraft | None = None
        """The latest draft with calls: text of the model behind it does not hide it."""
        self._outcomes: dict[str, dict[Hashable, CallDraft]] = {}
        """Of ids that several calls bear: which of them got which outcome last."""
        self._added: tuple[Sequence[Message], int | None] = (), None
        """The messages that are being added, and where they end."""
        self._behind_model = 0, False
        """What comes behind the messages of the model that are being added: its place, and whether it is a tool's."""
        self._last_calls: dict[str, int] | None = None
        """Id → the last of them with a call of it; None until that is asked for."""
        self._orphans: list[CallDraft] = []
        self._orphaned: dict[tuple[str, str | None], CallDraft] = {}

    def add(self, messages: Sequence[Message], start: int = 0, end: int | None = None) -> None:
        self._added, self._last_calls, self._behind_model = (messages, end), None, (0, False)
        for index in range(start, len(messages) if end is None else end):
            message = messages[index]
            speaker = message.speaker
            if speaker == "model":
                follows = index > start and messages[index - 1].speaker == "model"
                self._add_model(index, message, self._continued(message, index) if follows else None)
            elif speaker == "tool":
                self._add_tool(index, message)
            elif speaker == "user":
                self._add_user(index, message)
            else:
                raise TranscriptError(
                    f'There is no speaker "{speaker}".',
                    code="unknown_speaker",
                    path=f"messages[{index}].speaker",
                    hint='Use "user", "model" or "tool"; the system prompt is a field of the conversation.',
                )
        if self._orphans:
            self._reunite()

    def _add_model(self, index: int, message: Message, draft: ModelDraft | None) -> None:
        before = len(draft.calls) if draft is not None else 0
        continued = draft
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                self._pair_misplaced(block, index, position)
                draft = None
                continue
            if draft is None:
                draft = ModelDraft(index, message.origin)
                self.drafts.append(draft)
            if type(block) is ToolCall:
                self._add_call(draft, block, index, position)
            elif isinstance(block, _MODEL_BLOCKS):
                draft.items.append(block)
            else:
                raise _no_block(block, index, position)
        if continued is not None and len(continued.calls) > before:
            joined = self.joined_to_calls if before else self.joined_to_text
            joined.append(Note("calls_joined", index, calls=tuple(continued.calls[before:])))

    def _continued(self, message: Message, index: int) -> ModelDraft | None:
        """The draft that this message continues: a reply stored in pieces, or parallel calls stored apart."""
        last = self.drafts[-1] if self.drafts else None
        if (
            type(last) is not ModelDraft
            or last.orphan
            or last.last_answered >= 0
            or last.origin != message.origin
        ):
            return None
        if last.calls and not all(type(block) is ToolCall for block in message.blocks):
            return last if self._results_follow(index) else None
        return last

    def _results_follow(self, index: int) -> bool:
        """Whether results come next behind the messages of the model: what lies between them and the calls was said with these.
        Some clients store the calls of a reply before its text."""
        messages, end = self._added
        behind, follow = self._behind_model
        if index >= behind:
            end = len(messages) if end is None else end
            behind = next((place for place in range(index, end) if messages[place].speaker != "model"), end)
            follow = behind < end and messages[behind].speaker == "tool"
            self._behind_model = behind, follow
        return follow

    def _add_call(self, draft: ModelDraft, call: ToolCall, index: int, position: int) -> CallDraft:
        key = call.id or call.native_id
        made = CallDraft(call, key, draft, index, position)
        draft.add(made)
        self._batch = draft
        self.calls.setdefault(key, []).append(made)
        if key in self._open:
            self._open[key].add(made)
        return made

    def _add_tool(self, index: int, message: Message) -> None:
        beside = UserDraft(index, [])
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                known = len(self.notes)
                call = self._pair(block, index, position)
                if beside.blocks and len(self.notes) == known:
                    decision = "put before what lies in front of it"
                    self.notes.append(Note("result_moved", index, position, call, decision=decision))
            else:
                self._add_misplaced(block, index, position, beside)
        if beside.blocks:
            self.drafts.append(beside)

    def _add_user(self, index: int, message: Message) -> None:
        shown = UserDraft(index, [], instruction=message.instruction)
        for position, block in enumerate(message.blocks):
            if type(block) is ToolResult:
                self._pair_misplaced(block, index, position)
            else:
                self._add_misplaced(block, index, position, shown)
        if shown.blocks or not message.blocks:
            shown.blocks = shown.blocks or [Text("")]
            self.drafts.append(shown)

    def _add_misplaced(self, block: Block, index: int, position: int, beside: UserDraft) -> None:
        """A block outside a model's message: text and media stay, a call or a thought is the model's."""
        if type(block) is ToolCall:
            self._add_misplaced_call(block, index, position, beside)
        elif type(block) is Reasoning:
            self.notes.append(Note("reasoning_dropped", index, position, decision="not in a model's message"))
        elif isinstance(block, _SHOWN_BLOCKS):
            beside.blocks.append(block)
        else:
            raise _no_block(block, index, position)

    def _add_misplaced_call(self, call: ToolCall, index: int, position: int, beside: UserDraft) -> None:
        key = call.id or call.native_id
        echoed = self._echoed(call, key, index) if key else None
        if echoed is not None:
            self.notes.append(
                Note("duplicate_call_dropped", index, position, echoed, decision="echo of a call before it")
            )
            return
        last = self.drafts[-1] if self.drafts else None
        if type(last) is not ModelDraft or last.orphan or last.last_answered >= 0 or last.message != index:
            if beside.blocks:
                self.drafts.append(UserDraft(index, beside.blocks, instruction=beside.instruction))
                beside.blocks = []
            last = ModelDraft(index, None)
            self.drafts.append(last)
        made = self._add_call(last, call, index, position)
        self.notes.append(Note("speaker_corrected", index, position, made))

    def _echoed(self, call: ToolCall, key: str, index: int) -> CallDraft | None:
        """The call that a tool's message repeats beside its result."""
        made = self.calls.get(key)
        if made is None:
            return None
        last = made[-1]
        if last.results and last.results[-1].message == index and _same_request(last.call, call):
            return last
        return self._first_open(key, call.name)

    def _pair_misplaced(self, result: ToolResult, index: int, position: int) -> None:
        note = Note("speaker_corrected", index, position)
        known = len(self.notes)
        note.call = self._pair(result, index, position)
        if note.call is not None:
            self.notes.insert(known, note)

    def _pair(self, result: ToolResult, index: int, position: int) -> CallDraft | None:
        """Give a result to its call, and return that; None if it is dropped."""
        key = result.call_id or result.native_id
        known = self.calls.get(key) if key else None
        call: CallDraft | None
        if known is None:
            call = self._by_position(result, key, index)
            self.reaches_back = self.reaches_back or bool(key) or call is None
        elif len(known) == 1:
            call = known[0]
        else:
            call = self._among(known, result, key)
        if call is None:
            if not key and not result.name and tells_nothing(result):
                decision = "an empty result without an id, a name and a call is dropped"
                self.notes.append(Note("blank_text", index, position, decision=decision))
                return None
            return self._keep_orphan(result, key, index, position)
        draft = call.draft
        if draft is not self.drafts[-1]:
            self.notes.append(Note("result_moved", index, position, call))
        elif call.order < draft.last_answered:
            self.notes.append(Note("result_moved", index, position, call, decision="put into call order"))
        self._attach(call, ResultDraft(result, index, position))
        return call

    def _attach(self, call: CallDraft, result: ResultDraft) -> None:
        call.results.append(result)
        call.draft.last_answered = call.order
        outcomes = self._outcomes.get(call.key)
        if outcomes is not None:
            outcomes[outcome_of(result.result)] = call
        call.answered = call.answered or is_real(result.result)
        call.told = call.told or not is_placeholder(result.result)

    def _among(self, known: list[CallDraft], result: ToolResult, key: str) -> CallDraft:
        """Which of several calls with one id this result answers: an open one, or the one that has it already."""
        chosen = self._next_in_batch(key, result.name)
        if chosen is not None:
            return chosen
        outcomes = self._outcomes.get(key)
        if outcomes is None:
            outcomes = self._outcomes[key] = {
                outcome_of(held.result): call for call in known for held in call.results
            }
        same = outcomes.get(outcome_of(result))
        if same is not None and same.draft is known[-1].draft:
            return same
        return self._first_open(key, result.name) or same or known[-1]

    def _by_position(self, result: ToolResult, key: str, index: int) -> CallDraft | None:
        """No call before it bears this id: where one side has no id at all, order and name decide."""
        if key and (self._orphan_of(key, result.name) is not None or self._is_called_later(key, index)):
            return None
        chosen = self._next_in_batch("", result.name)
        if chosen is None and not key:
            chosen = self._next_in_batch(None, result.name) or self._first_open("", result.name)
            if (
                chosen is None and self._batch is not None
            ):  # it may be what a placeholder without an id stood for
                chosen = self._batch.unanswered(None).first(result.name, _is_told)
        return chosen

    def _is_called_later(self, key: str, index: int) -> bool:
        if self._last_calls is None:
            self._last_calls = {
                call.id or call.native_id: place
                for place, message in enumerate(self._added[0][: self._added[1]])
                for call in message.calls
            }
        return self._last_calls.get(key, -1) >= index

    def _next_in_batch(self, key: str | None, name: str) -> CallDraft | None:
        """The first call of the latest batch with this key (None: with any) that has no result yet, its name agreeing."""
        return self._batch.waiting(key).first(name, _has_result) if self._batch is not None else None

    def _first_open(self, key: str, name: str) -> CallDraft | None:
        """Of the latest batch with a call of this key that has a placeholder at most: the first such call."""
        queue = self._open.get(key)
        if queue is None:
            queue = self._open[key] = CallQueue(self.calls.get(key, ()))
        latest = queue.last(name, _is_told)
        if latest is None:
            return None
        return latest.draft.waiting(key).first(name, _has_result) or latest.draft.unanswered(key).first(
            name, _is_told
        )

    def _keep_orphan(self, result: ToolResult, key: str, index: int, position: int) -> CallDraft:
        last = self.drafts[-1] if self.drafts else None
        if type(last) is not ModelDraft or not last.orphan:
            last = None
        found = ResultDraft(result, index, position)
        known = self._orphan_of(key, result.name) if key else None
        if known is not None and _same_call(known, result):
            if known.draft is not last:
                self.notes.append(Note("result_moved", index, position, known))
            self._attach(known, found)
            return known
        if last is None:
            last = ModelDraft(index, None, orphan=True)
            self.drafts.append(last)
        call = ToolCall(result.call_id, result.name, native_id=result.native_id, reconstructed=True)
        made = CallDraft(call, key, last, index, position)
        for name in (result.name, None):
            self._orphaned[key, name] = made
        last.add(made)
        self._orphans.append(made)
        self._attach(made, found)
        return made

    def _orphan_of(self, key: str, name: str) -> CallDraft | None:
        """The latest lost call with this id, its name agreeing."""
        if not name:
            return self._orphaned.get((key, None))
        return self._orphaned.get((key, name)) or self._orphaned.get((key, ""))

    def _reunite(self) -> None:
        """Results that were stored before their call: the call is known by now."""
        later: dict[str, tuple[CallQueue, CallQueue]] = {}
        reunited: dict[CallDraft, CallDraft] = {}
        for orphan in self._orphans:
            calls = self.calls.get(orphan.key, ())
            open_calls, all_calls = later.setdefault(orphan.key, (CallQueue(calls), CallQueue(calls)))
            call = open_calls.first(orphan.call.name, _not_for(orphan)) or _held_by(orphan, all_calls)
            at = orphan.message, orphan.block
            if call is None:
                self.calls.setdefault(orphan.key, []).append(orphan)
                self.notes.append(Note("call_reconstructed", *at, orphan, decision="no call has this id"))
                continue
            for result in orphan.results:
                self._attach(call, result)
            self.notes.append(Note("result_moved", *at, call, decision="it was stored before its call"))
            reunited[orphan] = call
        self._orphans = []
        for note in self.notes:
            if type(note.call) is CallDraft:
                note.call = reunited.get(note.call, note.call)
        for draft in {id(orphan.draft): orphan.draft for orphan in reunited}.values():
            draft.calls = [call for call in draft.calls if call not in reunited]
            draft.items = list(draft.calls)


def _not_for(orphan: CallDraft) -> Callable[[CallDraft], bool]:
    """Which calls cannot be the one that a result was stored before."""
    return lambda call: call.told or call.message < orphan.message


def _held_by(orphan: CallDraft, calls: CallQueue) -> CallDraft | None:
    """The call behind it that has another result, if nothing of this one is lost there: it is a placeholder, or the same."""
    call = calls.first(orphan.call.name, lambda call: call.message < orphan.message)
    if call is None or not orphan.told:
        return call
    known = {outcome_of(held.result) for held in call.results}
    said = (held.result for held in orphan.results if not is_placeholder(held.result))
    return call if known.issuperset(map(outcome_of, said)) else None


def _no_block(block: object, index: int, position: int) -> TranscriptError:
    return TranscriptError(
        f"A value of type {type(block).__name__} is no block.",
        code="no_block",
        path=f"messages[{index}].blocks[{position}]",
        hint="Wrap text in Text; the other blocks are Reasoning, ToolCall, ToolResult, Media and Code.",
    )


def _has_result(call: CallDraft) -> bool:
    return bool(call.results)


def _is_told(call: CallDraft) -> bool:
    return call.told


def _same_request(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and arguments_of(one)[0] == arguments_of(other)[0]


def _same_call(known: CallDraft, result: ToolResult) -> bool:
    """Whether a result far from another with its id answers the same lost call: different ones do not, but for placeholders."""
    return (
        not known.told
        or is_placeholder(result)
        or any(same_outcome(held.result, result) for held in known.results)
    )
