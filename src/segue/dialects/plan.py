"""The one way from a conversation to the bytes of a request.

Provider, gateway, convert, doctor and preview all plan here, so that one history and one target have one answer. Pure:
what a plan keeps for the next request of the same conversation is a value that the caller holds.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Origin
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.tool_cache import work_out_once
from segue.dialects.caches.write_cache import EncodedPrefix, encode_after
from segue.dialects.card import ModelCard, fit_rules
from segue.dialects.registry import DIALECTS
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.render import render
from segue.transcript.repairs import Repair
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.interaction import Interaction
    from segue.conversation.message import Conversation
    from segue.conversation.options import Options
    from segue.dialects.dialect import Dialect


@final
class _RenderSettings(Struct, frozen=True, eq=False):
    """How a conversation is rendered for a target, and what that was worked out from."""

    rules: Rules
    policy: Policy
    card: ModelCard
    tools: tuple[ToolSpec, ...]
    asked: Policy
    """Without what the tools add to it."""


@final
class PlanState(Struct, frozen=True):
    """What the next request of the same conversation to the same target begins with. Opaque: pass it on."""

    transcript: Transcript
    encoded: EncodedPrefix
    settings: _RenderSettings
    names: dict[str, str]
    """As in the plan."""


@final
class Plan(Struct, frozen=True, kw_only=True):
    """A request, ready to be sent, and what it took."""

    body: bytes
    repairs: tuple[Repair, ...]
    """Of the transcript, of tools and of options: also settings that the target does not know."""
    origin: Origin
    """Who writes the reply."""
    names: dict[str, str]
    """The target's name of a tool → the conversation's, for every tool that was renamed."""
    transcript: Transcript
    state: PlanState

    @property
    def made_under(self) -> str:
        """Fingerprint that the seals of the reply are bound to; empty where they are not."""
        return self.transcript.fingerprint

    def call_ids(self) -> tuple[tuple[str, str], ...]:
        """The canonical id of each call, and the one that is sent."""
        steps = (step for step in self.transcript.steps if isinstance(step, ModelStep))
        return tuple((call.call_id, call.id) for step in steps for call in step.calls)


def plan(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    *,
    target: Origin,
    card: ModelCard,
    tools: tuple[ToolSpec, ...] = (),
    options: Options,
    policy: Policy = DEFAULT,
    previous: PlanState | None = None,
) -> Plan:
    """The request for `target`, in its dialect; `options` name its model too.

    `previous`, the state of an earlier plan of the same conversation, changes the cost and nothing else.
    """
    dialect = DIALECTS[target.dialect]
    transcript, settings = _rendered(conversation, ledger, dialect, target, card, tools, policy, previous)
    encoded = encode_after(
        previous.encoded if previous is not None else EncodedPrefix(),
        dialect,
        transcript,
        tools,
        options,
        card,
    )
    names = _own_names(transcript, previous)
    return Plan(
        body=encoded.body,
        repairs=(*transcript.repairs, *encoded.repairs),
        origin=target,
        names=names,
        transcript=transcript,
        state=PlanState(transcript, encoded.prefix, settings, names),
    )


def repairs_of_plan(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    *,
    target: Origin,
    card: ModelCard,
    tools: tuple[ToolSpec, ...] = (),
    options: Options,
    policy: Policy = DEFAULT,
    previous: PlanState | None = None,
) -> tuple[tuple[Repair, ...], PlanState]:
    """The repairs of the same plan, whose messages are not written for it; and the state for the next one."""
    dialect = DIALECTS[target.dialect]
    transcript, settings = _rendered(conversation, ledger, dialect, target, card, tools, policy, previous)
    # Behind the last step no messages are left, and only settings have repairs of their own.
    encoded = dialect.encode_request(transcript, tools, options, card, after=len(transcript.steps))
    state = PlanState(transcript, EncodedPrefix(), settings, _own_names(transcript, previous))
    return (*transcript.repairs, *encoded.repairs), state


def _rendered(
    conversation: Conversation,
    ledger: Mapping[str, Interaction] | None,
    dialect: Dialect,
    target: Origin,
    card: ModelCard,
    tools: tuple[ToolSpec, ...],
    policy: Policy,
    previous: PlanState | None,
) -> tuple[Transcript, _RenderSettings]:
    before = previous.transcript if previous is not None else None
    settings = previous.settings if previous is not None else None
    if (
        settings is None
        or settings.tools is not tools  # to compare them would take longer than what they are compared for
        or settings.card != card
        or settings.asked != policy
        or settings.rules.target != target
    ):
        rules = fit_rules(structs.replace(dialect.rules, target=target), card)
        settings = _RenderSettings(rules, _with_tools(policy, tools, rules), card, tools, policy)
    transcript = render(conversation, ledger, settings.rules, settings.policy, previous=before)
    return transcript, settings


def _own_names(transcript: Transcript, previous: PlanState | None) -> dict[str, str]:
    """The conversation's names of the tools that were renamed for the target."""
    if previous is not None and previous.transcript.names is transcript.names:
        return previous.names
    return {wire: name for name, wire in transcript.names.items() if wire != name}


def _with_tools(policy: Policy, tools: tuple[ToolSpec, ...], rules: Rules) -> Policy:
    """What the tools add to what the user wants."""
    names = policy.tool_names or work_out_once(tools, "names", lambda: tuple([tool.name for tool in tools]))
    settings_fingerprint = policy.settings_fingerprint
    if not settings_fingerprint and rules.reasoning.bound:
        settings_fingerprint = work_out_once(tools, "fingerprint", lambda: _fingerprint(tools))
    return structs.replace(policy, tool_names=names, settings_fingerprint=settings_fingerprint)


def _fingerprint(tools: tuple[ToolSpec, ...]) -> str:
    return blake2b(msgspec.json.encode(tools), digest_size=8).hexdigest()
