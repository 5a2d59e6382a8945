"""Conversation + ledger + rules → a transcript that the target accepts. The only home of repair.

For every history, however broken: each call has exactly one completion, in the next place, in call order; a real
result is never lost; ids are legal and distinct; the same state gives the same steps in any process; and appending to
the conversation leaves the earlier steps untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.json_safe import encodable
from segue.conversation.message import Conversation
from segue.errors import TranscriptError
from segue.transcript.composer import Composer
from segue.transcript.drafts import Note
from segue.transcript.fast import fast_paths
from segue.transcript.fast.fast_render import compose_exchange, compose_exchanges, compose_message
from segue.transcript.pairing import DraftBuilder
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.reasoning import Dropped, Prefix, all_but_last, strip, thinks
from segue.transcript.repairs import Repair
from segue.transcript.steps import ModelStep, Transcript, UserStep
from segue.transcript.text_tools.history import PAIRING_ONLY, write_history
from segue.transcript.text_tools.json_calls import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.conversation.message import Message
    from segue.transcript.rules import Rules
    from segue.transcript.text_tools.form import Form


def render(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy = DEFAULT,
    *,
    previous: Transcript | None = None,
    on_repair: Callable[[Repair], None] | None = None,
) -> Transcript:
    """Render the conversation as the target of `rules` accepts it.

    Without a ledger the history alone shows how calls ended. `previous`, a transcript of an earlier state of the same
    conversation, changes the cost and nothing else. `on_repair` is called with every repair.
    """
    if not conversation.messages:
        raise TranscriptError(
            "The conversation has no messages.",
            code="empty",
            path="messages",
            hint="Add a user message first.",
        )
    form = policy.text_form
    if form is None and not rules.tools and (ledger or any(_has_tools(m) for m in conversation.messages)):
        form = RECORD
    if form is not None:
        transcript = _render_as_text(conversation, ledger, rules, policy, form, previous)
    else:
        transcript = _render(conversation, ledger, rules, policy, previous)
    if on_repair is not None:
        for repair in transcript.repairs:
            on_repair(repair)
    return transcript


def _render(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy,
    previous: Transcript | None,
) -> Transcript:
    transcript = None
    if previous is not None and type(previous.resume) is _Resume:
        transcript = _continue(conversation, ledger, rules, policy, previous.resume)
    if transcript is None:
        transcript = _by_stretches(conversation, Composer(rules, policy, ledger), 0, set(), None)
    if transcript is None:
        transcript = _as_a_whole(conversation, Composer(rules, policy, ledger))
    return transcript


def _has_tools(message: Message) -> bool:
    return message.speaker == "tool" or any(type(block) in (ToolCall, ToolResult) for block in message.blocks)


def _render_as_text(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy,
    form: Form,
    previous: Transcript | None,
) -> Transcript:
    """Pair the calls with their results first, then render the text that they become."""
    paired = _render(conversation, ledger, structs.replace(PAIRING_ONLY, target=rules.target), policy, None)
    messages = tuple(write_history(paired, form))
    repairs = [repair for repair in paired.repairs if repair.kind not in _ONLY_NATIVE]
    repairs += [
        Repair("calls_as_text", rules.target.dialect, call_ids=tuple(call.call_id for call in step.calls))
        for step in paired.steps
        if type(step) is ModelStep and step.calls
    ]
    plain = Conversation(messages, conversation.system, conversation.minted)
    transcript = _render(plain, None, rules, policy, previous)
    return structs.replace(transcript, repairs=(*repairs, *transcript.repairs))


_ONLY_NATIVE = frozenset({"id_replaced", "name_replaced"})
"""Repairs of what no text shows."""


class _Resume:
    """The state before the last stretch of a conversation, for a later render to continue from."""

    __slots__ = ("composer", "keys", "messages", "prefix", "start", "system", "writes")

    def __init__(self, conversation: Conversation, composer: Composer, keys: set[str], start: int) -> None:
        self.messages = conversation.messages
        self.system = conversation.system
        self.composer = composer
        self.keys = keys
        self.start = start
        self.prefix: Prefix | None = None
        ledger = composer.ledger
        self.writes = ledger.writes if ledger is not None and isinstance(ledger, Ledger) else 0

    def keep(self, prefix: Prefix) -> None:
        """Remember the fingerprint of all steps but the last, which may still grow."""
        if prefix.length == len(self.composer.steps) - 1:
            self.prefix = prefix.fork()

    def fits(self, conversation: Conversation, ledger: Mapping[str, Interaction] | None) -> bool:
        """Whether all that was composed so far would be composed again."""
        start, before = self.start, self.composer.ledger
        try:
            if conversation.system != self.system or conversation.messages[:start] != self.messages[:start]:
                return False
        except Exception:  # arguments may hold anything, also what cannot be compared: a cycle, an array
            return False
        if ledger is None or before is None:
            return ledger is before
        if not isinstance(ledger, Ledger) or ledger is not before:
            return False
        return self.keys.isdisjoint(ledger.written_since(self.writes))


class _ReachesBack(Exception):  # noqa: N818 - never seen outside: it asks for another way of rendering
    """A stretch holds something that concerns what was composed before it."""


def _continue(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    rules: Rules,
    policy: Policy,
    resume: _Resume,
) -> Transcript | None:
    """The render that continues an earlier one; None if it cannot."""
    before = resume.composer
    if before.rules != rules or before.policy != policy or not resume.fits(conversation, ledger):
        return None
    return _by_stretches(conversation, before.fork(), resume.start, set(resume.keys), resume.prefix)


def _by_stretches(
    conversation: Conversation, composer: Composer, start: int, keys: set[str], prefix: Prefix | None
) -> Transcript | None:
    """Stretch by stretch, as long as no result misses its call in its own stretch."""
    messages = conversation.messages
    resume: _Resume | None = None
    count = len(messages)
    fast = fast_paths.enabled()
    try:
        while start < count:
            if fast:
                start = compose_exchanges(composer, messages, start, keys)
            steps, repairs = len(composer.steps), len(composer.repairs)
            end = _end_of_stretch(messages, start, count)
            if end == count and composer.policy.strip_reasoning != "all_but_last":
                resume = _Resume(conversation, composer.fork(), set(keys), start)
            if composer.ledger is not None:
                _claim(messages, start, end, keys)
            _compose_stretch(composer, messages, start, end, fast=fast)
            composer.flush()
            composer.touch(steps, repairs)
            start = end
        return _finish(conversation, composer, prefix, resume)
    except _ReachesBack:
        return None


def _end_of_stretch(messages: tuple[Message, ...], start: int, count: int) -> int:
    """Where the next stretch begins, which is paired on its own: at a user, or at the model after tools."""
    before = messages[start].speaker
    end = start + 1
    while end < count:
        speaker = messages[end].speaker
        if speaker == "user" or (speaker == "model" and before == "tool"):
            break
        before = speaker
        end += 1
    return end


def _compose_stretch(
    composer: Composer, messages: tuple[Message, ...], start: int, end: int, *, fast: bool
) -> None:
    # Nothing in a plain user message can concern what follows it, so that may be clean or paired on its own.
    if fast and messages[start].speaker == "user" and compose_message(composer, messages[start], start):
        start += 1
    if start < end and not (fast and _compose_fast(composer, messages, start, end)):
        _compose_slow(composer, messages, start, end)


def _compose_fast(composer: Composer, messages: tuple[Message, ...], start: int, end: int) -> bool:
    if messages[start].speaker != "model":
        return False
    if end - start == 1:
        return compose_message(composer, messages[start], start)
    if end - start == 2 and messages[start + 1].speaker == "tool":
        return compose_exchange(composer, messages[start], messages[start + 1], start)
    return False


def _claim(messages: tuple[Message, ...], start: int, end: int, keys: set[str]) -> None:
    """An entry of the ledger stands for one call only, so an id that comes again concerns the first call too."""
    for message in messages[start:end]:
        for block in message.blocks:
            if type(block) is ToolCall and block.id:
                if block.id in keys:
                    raise _ReachesBack
                keys.add(block.id)


def _compose_slow(composer: Composer, messages: tuple[Message, ...], start: int, end: int) -> None:
    builder = DraftBuilder()
    builder.add(messages, start, end)
    if end - start < len(messages) and (builder.reaches_back or not composer.open.isdisjoint(builder.calls)):
        raise _ReachesBack
    composer.notes += builder.notes
    composer.calls = builder.calls
    for draft in builder.drafts:
        composer.compose(draft)


def _as_a_whole(conversation: Conversation, composer: Composer) -> Transcript:
    """All messages paired together: results find their calls over any distance."""
    _compose_slow(composer, conversation.messages, 0, len(conversation.messages))
    composer.flush()
    composer.touch(0, 0)
    return _finish(conversation, composer, None, None)


def _finish(
    conversation: Conversation, composer: Composer, prefix: Prefix | None, resume: _Resume | None
) -> Transcript:
    rules = composer.rules
    composer.finish()
    if composer.policy.strip_reasoning == "all_but_last":
        indexes = all_but_last(composer.steps, rules.reasoning)
        dropped = strip(composer.steps, indexes, rules.reasoning, conversation.messages, -1)
        _note_dropped(composer, dropped, "the policy keeps the last reasoning only")
    if rules.reasoning.bound:
        prefix = (
            prefix.fork()
            if prefix is not None
            else Prefix(conversation.system, composer.policy.settings_fingerprint)
        )
        if resume is not None:
            resume.prefix = prefix.fork()
        if composer.has_thoughts:
            _bind(composer, conversation.messages, prefix, resume)
    system = _place_system(conversation, composer)
    composer.flush()
    return Transcript(
        tuple(composer.steps),
        tuple(composer.repairs),
        system,
        rules.target,
        composer.names.names,
        prefix,
        resume,
    )


def _note_dropped(composer: Composer, dropped: list[Dropped], decision: str) -> None:
    composer.notes += [Note("reasoning_dropped", at, decision=decision, calls=calls) for at, calls in dropped]


def _bind(composer: Composer, messages: tuple[Message, ...], prefix: Prefix, resume: _Resume | None) -> None:
    """Drop thoughts whose seal was made under another prefix, and all before them."""
    steps = composer.steps
    untouched = len(steps) if composer.untouched is None else composer.untouched
    first = prefix.length
    broken = composer.torn if composer.torn >= first else -1
    for index in range(first, len(steps)):
        if resume is not None:
            resume.keep(prefix)
        if thinks(steps[index]) and prefix.breaks(steps[index], touched=index >= untouched):
            broken = index
        prefix.add(steps[index])
    if broken >= 0:
        if any(thinks(step) for step in steps[:first]):
            raise _ReachesBack
        _unbind(composer, messages, broken + 1)
        if resume is not None:
            _unbind(resume.composer, messages, broken + 1)
    _note_dropped(composer, composer.unbound, "its seal was made under another prefix")


def _unbind(composer: Composer, messages: tuple[Message, ...], end: int) -> None:
    """Drop the thoughts of all steps before `end`, and keep which: a render that continues from here reports them too."""
    # A step that lost its thoughts and held nothing else was not sent: it is torn, and not there.
    indexes = range(min(end, len(composer.steps)))
    after = composer.unbound[-1].message if composer.unbound else -1
    composer.unbound += strip(composer.steps, indexes, composer.rules.reasoning, messages, after)


def _place_system(conversation: Conversation, composer: Composer) -> str:
    system = encodable(conversation.system)
    if system.isspace() and not composer.rules.blank_text:
        composer.notes.append(Note("blank_text", 0, decision="the system prompt is dropped"))
        return ""
    if not system or composer.rules.system == "apart":
        return system
    composer.notes.append(Note("system_folded", 0))
    for index, step in enumerate(composer.steps):
        if type(step) is UserStep:
            composer.steps[index] = UserStep((Text(system), *step.blocks), step.instruction)
            return ""
    composer.steps.insert(0, UserStep((Text(system),)))
    return ""
