"""Conversation + ledger + rules → a transcript that the target accepts. The only home of repair.

For every history, however broken: each call has exactly one completion, in the next place, in call order; a real
result is never lost; ids are legal and distinct; the same state gives the same steps in any process; and appending to
the conversation leaves what was said before untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import Text
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.plain import sayable
from segue.errors import TranscriptError
from segue.transcript.composer import Composer
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.reasoning import Prefix, keep_last_only, strip, thinks
from segue.transcript.repairs import Repair
from segue.transcript.speakers import Listener, ModelDraft, Note, UserDraft
from segue.transcript.steps import Transcript, UserStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.conversation.message import Conversation, Message
    from segue.transcript.rules import Rules
    from segue.transcript.speakers import Draft


def render(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy = DEFAULT,
    *,
    previous: Transcript | None = None,
    on_repair: Callable[[Repair], None] | None = None,
) -> Transcript:
    """Say the conversation in a way that the target of `rules` accepts.

    Without a ledger the history alone tells how calls ended. `previous`, a transcript of an earlier state of the same
    conversation, changes the cost and nothing else. `on_repair` hears of every repair.
    """
    if not conversation.messages:
        raise TranscriptError(
            "The conversation has no messages.",
            code="empty",
            path="messages",
            hint="Add a user message first.",
        )
    transcript = _continue(conversation, ledger, rules, policy, previous)
    if transcript is None:
        transcript = _start(conversation, ledger, rules, policy)
    if on_repair is not None:
        for repair in transcript.repairs:
            on_repair(repair)
    return transcript


class _Resume:
    """Where a later render of the same conversation can go on: the state before one of its last messages."""

    __slots__ = ("composer", "keys", "messages", "policy", "prefix", "rules", "start", "system", "writes")

    def __init__(self, conversation: Conversation, composer: Composer, start: int, keys: set[str]) -> None:
        self.messages = conversation.messages
        self.system = conversation.system
        self.rules = composer.rules
        self.policy = composer.policy
        self.composer = composer
        self.start = start
        self.keys = keys
        self.prefix: Prefix | None = None
        self.writes = _writes(composer.ledger)

    def fits(self, conversation: Conversation, ledger: Mapping[str, Interaction] | None) -> bool:
        """Whether all that was composed so far would be composed again."""
        start = self.start
        if conversation.system != self.system or conversation.messages[:start] != self.messages[:start]:
            return False
        before = self.composer.ledger
        if ledger is None or before is None:
            return ledger is before
        if not isinstance(ledger, Ledger) or ledger is not before:
            return False
        return self.keys.isdisjoint(ledger.written_since(self.writes))


def _writes(ledger: Mapping[str, Interaction] | None) -> int:
    return ledger.writes if isinstance(ledger, Ledger) else 0


def _start(
    conversation: Conversation, ledger: Mapping[str, Interaction] | None, rules: Rules, policy: Policy
) -> Transcript:
    listener = Listener()
    listener.hear(conversation.messages)
    composer = Composer(rules, policy, ledger)
    transcript = _compose(conversation, listener, composer, set(), None)
    if transcript is None:  # pragma: no cover - only a continued render can ask for a fresh one
        raise TranscriptError("A fresh render asked for another one.", code="internal")
    return transcript


def _continue(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy,
    previous: Transcript | None,
) -> Transcript | None:
    """The render that goes on from an earlier one; nothing where the new messages reach back behind it."""
    resume = previous.resume if previous is not None else None
    if type(resume) is not _Resume or resume.rules != rules or resume.policy != policy:
        return None
    if not resume.fits(conversation, ledger):
        return None
    listener = Listener()
    listener.hear(conversation.messages, resume.start)
    keys = listener.calls.keys()
    reaches_back = any(type(draft) is ModelDraft and draft.orphan for draft in listener.drafts)
    if reaches_back or "" in keys or not resume.keys.isdisjoint(keys):
        return None
    return _compose(conversation, listener, resume.composer.fork(), resume.keys, resume.prefix)


def _compose(
    conversation: Conversation, listener: Listener, composer: Composer, keys: set[str], prefix: Prefix | None
) -> Transcript | None:
    rules = composer.rules
    drafts = listener.drafts
    composer.calls = listener.calls
    cut = _cut(conversation.messages, listener) if composer.policy.strip_reasoning != "all_but_last" else 0
    resume: _Resume | None = None
    for index, draft in enumerate(drafts):
        if index == cut and cut:
            start = draft.message
            known = {key for key, calls in listener.calls.items() if calls[0].message < start}
            resume = _Resume(conversation, composer.fork(), start, keys | known | listener.orphan_keys)
            heard = [note for note in listener.notes if note.message < start]
            resume.composer.notes = heard + resume.composer.notes
        composer.compose(draft)
    composer.finish()
    if composer.policy.strip_reasoning == "all_but_last":
        for _ in keep_last_only(composer.steps):
            composer.notes.append(
                Note("reasoning_dropped", composer.heard, decision="the policy keeps the last reasoning only")
            )
    fingerprint = ""
    if rules.reasoning.bound:
        prefix = (
            prefix.fork()
            if prefix is not None
            else Prefix(f"{composer.policy.surroundings}\x00{conversation.system}")
        )
        touched = any(note.kind not in _HARMLESS for note in (*composer.notes, *listener.notes))
        bound = _bind(composer, prefix, resume, touched=touched)
        if bound is None:
            return None
        fingerprint = bound
    system = _place_system(conversation, composer)
    # Found while listening or while composing: told in the order of the messages.
    notes = sorted([*listener.notes, *composer.notes], key=_message)
    repairs = tuple(_repair(note, rules.target.dialect) for note in notes)
    return Transcript(
        tuple(composer.steps), repairs, system, rules.target, composer.names.names, fingerprint, resume
    )


def _cut(messages: tuple[Message, ...], listener: Listener) -> int:
    """The last draft that nothing appended later can join, counted from the front; 0 if there is none."""
    drafts = listener.drafts
    for index in range(len(drafts) - 1, max(len(drafts) - 4, 0), -1):
        draft, before = drafts[index], drafts[index - 1]
        if (
            before.message < draft.message > listener.reached
            and messages[draft.message].speaker != "tool"
            and _apart(before, draft)
        ):
            return index
    return 0


def _apart(before: Draft, draft: Draft) -> bool:
    """Whether the listener can never hear the two as one."""
    return type(draft) is UserDraft or type(before) is UserDraft or before.heard >= 0


def _bind(composer: Composer, prefix: Prefix, resume: _Resume | None, *, touched: bool) -> str | None:
    """Drop thoughts whose seal was made under another prefix, and all before them; the final fingerprint.

    Nothing where steps that were composed by an earlier render would have to change.
    """
    steps = composer.steps
    first = prefix.length
    broken = -1
    for index in range(first, len(steps)):
        if resume is not None and index == len(resume.composer.steps) - 1:
            resume.prefix = prefix.fork()  # the last step may still grow, so it is not counted in
        if thinks(steps[index]) and prefix.breaks(steps[index], touched=touched):
            broken = index
        prefix.add(steps[index])
    if broken < 0:
        return prefix.fingerprint
    if any(thinks(step) for step in steps[:first]):
        return None
    for _ in strip(steps, range(broken + 1)):
        composer.notes.append(
            Note("reasoning_dropped", composer.heard, decision="its seal was made under another prefix")
        )
    if resume is not None:
        strip(resume.composer.steps, range(min(broken + 1, len(resume.composer.steps))))
    return prefix.fingerprint


_HARMLESS = frozenset({"reasoning_dropped", "ended"})
"""Repairs that change nothing of what a bound seal is bound to."""


def _place_system(conversation: Conversation, composer: Composer) -> str:
    system = sayable(conversation.system)
    if not system or composer.rules.system == "apart":
        return system
    composer.notes.append(Note("system_folded", 0))
    for index, step in enumerate(composer.steps):
        if type(step) is UserStep:
            composer.steps[index] = UserStep((Text(system), *step.blocks), step.instruction)
            return ""
    composer.steps.insert(0, UserStep((Text(system),)))
    return ""


def _message(note: Note) -> int:
    return note.message


def _repair(note: Note, dialect: str) -> Repair:
    call = note.call
    if call is None:
        return Repair(note.kind, dialect, note.path, decision=note.decision, reason=note.reason)
    emitted = (call.wire_id,) if call.wire_id else ()
    return Repair(
        note.kind,
        dialect,
        note.path,
        (call.call.id or call.key,),
        emitted,
        emitted,
        note.decision,
        note.reason,
    )
