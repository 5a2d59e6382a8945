"""Thinking on replay: it must stand where it stood, as it was, after what it followed (ANT-51 … ANT-58)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import seals, typed_blocks
from segue.emulators.anthropic.seals import THOUGHTS, Claims
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.anthropic.typed_blocks import Body, Turn

BINDING_BETA = "thinking-binding-controls-2026-08-01"
BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or"
    ' set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the'
    f" `{BINDING_BETA}` value in the `anthropic-beta` header."
)
# The third sentence, which names what differs when that is known (ANT-57).
DIAGNOSES = {
    "system": " The `system` prompt differs from the one this block was created with.",
    "tools": " The `tools` list differs from the one this block was created with.",
    "previous": " The `thinking` block that preceded this one when it was created is missing from this request.",
    "messages": "",
}
MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
    " These blocks must remain as they were in the original response."
)
MUST_START = (
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the"
    " lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous"
    " turns. To avoid this requirement, disable `thinking`. Please consult our documentation at"
    " https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
)


def complaints(body: Body, context: Context) -> Complaints:
    yield from starts_with_thinking(body)
    yield from thinking_while_disabled(body, context)
    yield from ends_with_thinking(body)
    if context.facts.get("trust_foreign_signatures"):
        return
    yield from modified_thinking(body, context)
    yield from invalid_signatures(body, context)
    yield from broken_bonds(body, context)


@rule("ANT-52")
def starts_with_thinking(body: Body) -> Complaints:
    """Manual mode only: an open tool loop begins with a thinking block."""
    turns = [turn for turn in typed_blocks.turns_of(body) if turn.role in ("user", "assistant")]
    if typed_blocks.thinking_mode(body) != "enabled" or not turns or not turns[-1].of_type("tool_result"):
        return
    opening = _loop_start(turns)
    if opening is not None and opening.blocks and opening.blocks[0].type not in THOUGHTS:
        first = opening.blocks[0]
        text = f"{first.path}.type: Expected `thinking` or `redacted_thinking`, but found `{first.type}`. {MUST_START}"
        yield Refusal("ANT-52", text)


def _loop_start(turns: list[Turn]) -> Turn | None:
    """The first assistant turn after the last user turn that brought no results."""
    opening = None
    for turn in reversed(turns):
        if turn.role == "assistant":
            opening = turn
        elif not turn.of_type("tool_result"):
            break
    return opening


@rule("ANT-53", "M")
def thinking_while_disabled(body: Body, context: Context) -> Complaints:
    turns = typed_blocks.turns_of(body)
    if typed_blocks.thinks(body, context) or not turns or turns[-1].role != "assistant":
        return
    if turns[-1].of_type(*THOUGHTS):
        text = (
            "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
            " To use thinking blocks, enable `thinking` in your request."
        )
        yield Refusal("ANT-53", text, confidence="M")


@rule("ANT-56", "M")
def ends_with_thinking(body: Body) -> Complaints:
    for turn in typed_blocks.turns_of(body):
        if turn.role == "assistant" and turn.blocks and turn.blocks[-1].type in THOUGHTS:
            last = turn.blocks[-1]
            text = f"messages.{last.message}: The final block in an assistant message cannot be `thinking`."
            yield Refusal("ANT-56", text, confidence="M")


@rule("ANT-54")
@rule("ANT-59")
def modified_thinking(body: Body, context: Context) -> Complaints:
    latest = next((turn for turn in reversed(typed_blocks.turns_of(body)) if turn.role == "assistant"), None)
    if latest is None:
        return
    for block, now in seals.thoughts(body, context):
        born = seals.opened(block.value, context)
        if block.message < latest.first or born is None or not _ours(born, context):
            continue
        torn = born.get("run") != now["run"] or not _whole(born, latest, context)
        if torn or not seals.same_text(block.value, born):
            yield Refusal("ANT-54", f"{block.path}: {MODIFIED}")


def _whole(born: Claims, latest: Turn, context: Context) -> bool:
    """Whether all thinking blocks of the reply are still there."""
    reply = born.get("reply", "")
    together = [
        claims
        for block in latest.of_type("thinking")
        if (claims := seals.opened(block.value, context)) is not None and claims.get("reply") == reply
    ]
    return str(len(together)) == reply.rpartition("/")[2]


@rule("ANT-55")
def invalid_signatures(body: Body, context: Context) -> Complaints:
    for block, _ in seals.thoughts(body, context):
        if block.type == "redacted_thinking":
            text = f"{block.path}: Invalid `data` in `redacted_thinking` block"
            yield Refusal("ANT-55", text, confidence="M")
            continue
        born = seals.opened(block.value, context)
        foreign = born is None or (born["platform"], born["account"]) != (context.platform, context.account)
        if born is None or foreign or not seals.same_text(block.value, born):
            yield Refusal("ANT-55", f"{block.path}: Invalid `signature` in `thinking` block")


@rule("ANT-57")
@rule("ANT-58")
def broken_bonds(body: Body, context: Context) -> Complaints:
    """Only on models that bind; another model's blocks are ignored there (ANT-58), as are blocks to be dropped."""
    binding = typed_blocks.record_of(typed_blocks.record_of(body.get("thinking")).get("block_binding"))
    asked = binding.get("prefix_mismatch_behavior")
    if context.facts.get("prefix_binding") is not True and asked != "error":
        return
    if asked == "drop_block" and typed_blocks.has_beta(context, BINDING_BETA):
        return
    for block, now in seals.thoughts(body, context):
        born = seals.opened(block.value, context)
        if born is None or not _ours(born, context):
            continue
        broken = _first_broken(born, now)
        if broken is not None:
            yield Refusal("ANT-57", f"{block.path}: {BOUND}{DIAGNOSES[broken]}")


def _first_broken(born: Claims, now: Claims) -> str | None:
    for claim in ("system", "tools", "previous", "messages"):
        # Thinking may be removed from the front: then nothing precedes this block any more.
        removed_from_the_front = claim == "previous" and now[claim] == ""
        if born.get(claim) != now[claim] and not removed_from_the_front:
            return claim
    return None


def _ours(born: Claims, context: Context) -> bool:
    return (born["platform"], born["account"], born["model"]) == (
        context.platform,
        context.account,
        context.model,
    )
