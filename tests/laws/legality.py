"""A second reading of the rules: what a target would say against a transcript."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

from segue.conversation.blocks import Media, Reasoning, Text
from segue.transcript.rules import Rules, accepts_media
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript, UserStep


def complaints(transcript: Transcript, rules: Rules) -> Iterator[str]:
    steps = transcript.steps
    if not steps:
        yield "nothing is said"
        return
    if rules.opens_with_user and not isinstance(steps[0], UserStep):
        yield "the model speaks first"
    last = steps[-1]
    if not rules.ends_with_model and isinstance(last, ModelStep) and not last.calls:
        yield "the model has the last word"
    for before, step in itertools.pairwise(steps):
        yield from _neighbours(before, step, rules)
    ids = [call.id for step in steps if isinstance(step, ModelStep) for call in step.calls]
    if len(set(ids)) != len(ids):
        yield "an id is used twice"
    for index, step in enumerate(steps):
        if not step.blocks:
            yield f"step {index} is empty"
        if isinstance(step, ModelStep):
            yield from _model_step(step, rules)
        else:
            yield from _user_step(step, rules)
    for position, call_id in enumerate(ids):
        yield from _call_id(call_id, position, rules)


def _neighbours(before: UserStep | ModelStep, step: UserStep | ModelStep, rules: Rules) -> Iterator[str]:
    if isinstance(before, ModelStep) and isinstance(step, UserStep) and before.calls and rules.bridge:
        yield "a user message right after results"
    if isinstance(before, ModelStep) and isinstance(step, ModelStep) and not before.calls:
        yield "two model messages in a row"
    if not rules.alternates:
        return
    if isinstance(before, UserStep) and isinstance(step, UserStep) and before.instruction == step.instruction:
        yield "two user messages in a row"


def _order_of(kinds: list[type], rules: Rules) -> Iterator[str]:
    if all(kind is Reasoning for kind in kinds):
        yield "a message of thoughts alone"
    if kinds[-1:] == [Reasoning] and not rules.reasoning.last:
        yield "a message ends with a thought"
    if (
        rules.calls_last
        and AnsweredCall in kinds
        and any(kind is not AnsweredCall for kind in kinds[kinds.index(AnsweredCall) :])
    ):
        yield "something follows the calls"
    if rules.calls_per_step and kinds.count(AnsweredCall) > rules.calls_per_step:
        yield "too many calls at once"


def _model_step(step: ModelStep, rules: Rules) -> Iterator[str]:
    kinds = [type(block) for block in step.blocks]
    yield from _order_of(kinds, rules)
    required = rules.reasoning.required
    if (required == "all" or (required == "calls" and AnsweredCall in kinds)) and Reasoning not in kinds:
        yield "no reasoning where it is required"
    for block in step.blocks:
        if isinstance(block, AnsweredCall):
            yield from _call(block, rules)
        elif isinstance(block, Text):
            yield from _text(block, rules)
        elif isinstance(block, Media):
            if not accepts_media(rules.media.model, rules.media, block):
                yield "the model may not show this"
        elif rules.reasoning.replay == "sealed" and block.seal is None and not rules.reasoning.unsealed:
            yield "a thought without a seal"
    calls = step.calls
    if calls and rules.reasoning.call_seal and calls[0].seal is None:
        yield "the first call has no seal"


def _call(call: AnsweredCall, rules: Rules) -> Iterator[str]:
    if not isinstance(json.loads(call.arguments), dict):
        yield "arguments are not an object"
    name = call.name
    if (
        not name
        or len(name) > rules.names.max_length
        or name[0] not in rules.names.first
        or set(name) - set(rules.names.rest)
    ):
        yield f"illegal name {name!r}"
    done = call.completion
    if not rules.blank_text and not done.text.strip() and not done.media:
        yield "an empty result"
    if done.is_error and not done.text.strip():
        yield "a failure without a word"
    if done.is_error and done.media and not rules.media.in_errors:
        yield "media in a failed result"
    for media in done.media:
        if not accepts_media(rules.media.tool, rules.media, media):
            yield "the tool may not show this"


def _text(block: Text, rules: Rules) -> Iterator[str]:
    if not rules.blank_text and not block.text.strip() and block.seal is None:
        yield "blank text"


def _user_step(step: UserStep, rules: Rules) -> Iterator[str]:
    if step.instruction and rules.instructions == "user":
        yield "a system note in mid-conversation"
    for block in step.blocks:
        if isinstance(block, Media):
            if not accepts_media(rules.media.user, rules.media, block):
                yield "the user may not show this"
        else:
            yield from _text(block, rules)


def _call_id(call_id: str, position: int, rules: Rules) -> Iterator[str]:
    match rules.ids.form:
        case "indexed":
            if not re.fullmatch(rf"{re.escape(rules.ids.prefix)}[A-Za-z_][A-Za-z0-9_-]*:{position}", call_id):
                yield f"illegal id {call_id!r}"
        case "alphanumeric":
            if not re.fullmatch(rf"[A-Za-z0-9]{{{rules.ids.max_length}}}", call_id):
                yield f"illegal id {call_id!r}"
        case "prefixed":
            if not call_id or len(call_id) > rules.ids.max_length or set(call_id) - set(rules.ids.characters):
                yield f"illegal id {call_id!r}"
