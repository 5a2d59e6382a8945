"""Which thoughts and seals may go back, and to whom.

A seal is opened only by the provider, endpoint and model that made it, and some models bind it to the exact prefix
it was made under. Where a history shows only its wire and model, the wire's home provider is taken to have made it.
Foreign thoughts are never turned into text that the target seems to have written.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Origin, Reasoning, Seal
from segue.conversation.json_safe import is_encodable
from segue.transcript.rules import Rules
from segue.transcript.steps import AnsweredCall, ModelStep, Step, StepBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.extra import Extra
    from segue.conversation.message import Message
    from segue.transcript.policy import Policy
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import ReasoningRules

_ENCODER = msgspec.json.Encoder()


_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")
"""What a snapshot's name has behind the name that stands for the newest one."""


def is_by_provider(writer: Origin, rules: Rules) -> bool:
    """Whether nothing contradicts that the target's provider wrote it, with whatever model.

    A provider or endpoint that is not known, on either side, can only be that of the wire's home.
    """
    target, home = rules.target, rules.home
    provider = writer.provider or home
    if writer.dialect != target.dialect or provider != (target.provider or home):
        return False
    if writer.endpoint == target.endpoint:
        return True
    return provider == home and not (writer.endpoint and target.endpoint)


def is_by_target(writer: Origin, rules: Rules) -> bool:
    """Whether nothing contradicts that the target's very model wrote it."""
    target = rules.target
    return writer == target or (is_by_provider(writer, rules) and _is_same_model(writer.model, target.model))


def _is_same_model(one: str, other: str) -> bool:
    """Equal, or the name of a dated snapshot and the name that stands for it."""
    if one == other:
        return True
    return bool(one and other) and (_DATE.sub("", one) == other or one == _DATE.sub("", other))


class Makers(Struct):
    """Who wrote messages and made seals, as the rules of one target see it.

    Most of a history has one maker, so what was found of the last one is kept.
    """

    rules: Rules
    _writer: Origin | None = None
    _by_provider: bool = False
    _maker: Origin | None = None
    _by_target: bool = False

    def is_provider(self, writer: Origin | None) -> bool:
        """Whether ids of this writer's calls were issued by the very provider we render for."""
        if writer is None:
            return False
        if writer is not self._writer:
            self._writer, self._by_provider = writer, is_by_provider(writer, self.rules)
        return self._by_provider

    def is_target(self, maker: Origin) -> bool:
        if maker is not self._maker:
            self._maker, self._by_target = maker, is_by_target(maker, self.rules)
        return self._by_target

    def opens(self, seal: Seal) -> bool:
        """Whether the target can open a seal."""
        return self.is_target(seal.origin) and is_encodable(seal.payload)

    def drops_all(self, policy: Policy) -> list[tuple[Kind, str]]:
        """What is reported of any thought, if none is sent; empty if it depends on the thought."""
        none_sent = not policy.include_reasoning or policy.strip_reasoning == "all"
        if not none_sent and self.rules.reasoning.replay != "none":
            return []
        return [("reasoning_dropped", self.drop_reason(Reasoning(), None, policy))]

    def drop_reason(self, thought: Reasoning, speaker: Origin | None, policy: Policy) -> str:
        """Why a thought is not sent; empty if it is sent."""
        if not policy.include_reasoning or policy.strip_reasoning == "all":
            return "the policy leaves reasoning out"
        replay = self.rules.reasoning.replay
        if replay == "none":
            return "the target takes no reasoning back"
        if not is_encodable(thought.text):
            return "it holds text that cannot be written"
        if replay == "sealed":
            if thought.seal is None:
                own = self.rules.reasoning.unsealed and speaker is not None and self.is_target(speaker)
                return "" if own and thought.text else "it carries no seal"
            return "" if self.opens(thought.seal) else "another model made it"
        if speaker is None or not self.is_target(speaker):
            return "another model made it"
        return "" if thought.text else "it is empty"


def thinks(step: Step) -> bool:
    return type(step) is ModelStep and any(type(block) is Reasoning for block in step.blocks)


def lacks_thought(blocks: Sequence[StepBlock], rules: ReasoningRules) -> bool:
    """Whether a message of the model is without the reasoning that the target insists on."""
    insists = rules.required == "all" or (
        rules.required == "calls" and any(type(block) is AnsweredCall for block in blocks)
    )
    return insists and not any(type(block) is Reasoning for block in blocks)


def all_but_last(steps: list[Step], rules: ReasoningRules) -> list[int]:
    """The indexes of the steps with thoughts, without the last one's."""
    filler = Reasoning(rules.filler)
    thinking = [
        index
        for index, step in enumerate(steps)
        if type(step) is ModelStep
        and any(type(block) is Reasoning and block != filler for block in step.blocks)
    ]
    return thinking[:-1]


def without_ids(blocks: Sequence[StepBlock], rules: ReasoningRules) -> list[StepBlock]:
    """What stood beside a thought that is not sent, without the ids by which the provider would look for the thought."""
    if not rules.item_id:
        return [*blocks]
    return [
        block
        if block.extra is None
        else structs.replace(block, extra=_without_field(block.extra, rules.item_id))
        for block in blocks
    ]


def _without_field(extra: Extra, field: str) -> Extra:
    form = {name: value for name, value in extra.form.items() if name != field}
    around = None if extra.container is None else _without_field(extra.container, field)
    return structs.replace(extra, form=form, container=around)


class Dropped(NamedTuple):
    """Reasoning that was taken out of a step: the message it stood in, and the calls beside it."""

    message: int
    calls: tuple[AnsweredCall, ...]


def strip(
    steps: list[Step], indexes: Sequence[int], rules: ReasoningRules, messages: Sequence[Message], after: int
) -> list[Dropped]:
    """Take the reasoning out of these steps; where the target insists on some, its filler stays.

    It is looked for in the messages behind `after`.
    """
    dropped = []
    for index in indexes:
        step = steps[index]
        if type(step) is ModelStep and thinks(step):
            kept = [block for block in step.blocks if type(block) is not Reasoning]
            bare = ModelStep(tuple(without_ids(kept, rules)))
            after = _message_of(next(b for b in step.blocks if type(b) is Reasoning), messages, after)
            dropped.append(Dropped(after, bare.calls))
            if rules.required == "all" or (rules.required == "calls" and bare.calls):
                bare = ModelStep((Reasoning(rules.filler), *bare.blocks))
            steps[index] = bare
    return dropped


def _message_of(thought: Reasoning, messages: Sequence[Message], after: int) -> int:
    """A step holds the very block of its message, unless it was made anew: then it stood somewhere behind `after`."""
    for index in range(after + 1, len(messages)):
        if any(block is thought for block in messages[index].blocks):
            return index
    return max(after, 0)


class Prefix:
    """A running fingerprint of what was sent, without thoughts, and whether a seal was made under it."""

    __slots__ = ("_begun", "_beside", "length")

    def __init__(self, system: str, settings_fingerprint: str) -> None:
        self._beside = settings_fingerprint, system
        self._begun: blake2b | None = None
        self.length = 0

    @property
    def _hash(self) -> blake2b:
        """Begun when it is needed: most histories hold no thoughts, and a system prompt is long."""
        if self._begun is None:
            self._begun = blake2b("\0".join(self._beside).encode("utf-8", "surrogatepass"), digest_size=16)
        return self._begun

    def fork(self) -> Prefix:
        twin = Prefix(*reversed(self._beside))
        twin._begun = None if self._begun is None else self._begun.copy()
        twin.length = self.length
        return twin

    def add(self, step: Step) -> None:
        self._hash.update(type(step).__name__.encode())
        for block in step.blocks:
            if type(block) is not Reasoning:
                self._hash.update(_ENCODER.encode(_without_marks(block)))
        self.length += 1

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def breaks(self, step: Step, *, touched: bool) -> bool:
        """Whether a thought in this step was made under another prefix than the one so far.

        A seal that does not record what it was made under counts as unbroken as long as nothing before it was changed.
        """
        return any(
            type(block) is Reasoning
            and block.seal is not None
            and (block.seal.made_under != self.fingerprint if block.seal.made_under else touched)
            for block in step.blocks
        )


def _without_marks(block: StepBlock) -> StepBlock:
    """What a seal is bound to. Marks for the cache are not: clients move them from request to request."""
    if type(block) is not AnsweredCall:
        return block if block.extra is None else structs.replace(block, extra=None)
    done = block.completion
    if done.extra is not None:
        done = structs.replace(done, extra=None)
    return AnsweredCall(block.id, block.name, block.arguments, done, "")
