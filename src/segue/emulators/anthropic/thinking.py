"""Thinking on replay: it must stand where it stood, as it was, after what it followed (ANT-51 … ANT-58).

A signature carries claims about its birth: who asked whom, the block's own text, its place in the reply, and
digests of all that came before. Verifying means making the same claims again from the request and comparing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators import signatures
from segue.emulators.anthropic import typed_blocks
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.anthropic.typed_blocks import Block, Body, Turn

PREFIX = "EqQB"
THOUGHTS = ("thinking", "redacted_thinking")
Claims: TypeAlias = dict[str, str]


class Trail:
    """What has been said up to a point, as digests that grow block by block."""

    def __init__(self, body: Body, context: Context) -> None:
        self._body = body
        self._referred: set[str] = set()
        self._claims: Claims = {
            "platform": context.platform,
            "account": context.account,
            "model": context.model,
            "system": signatures.digest(_system(body)),
            "tools": self._tools(),
            "messages": "",
            # The thinking block before, and everything before in the same assistant turn.
            "previous": "",
            "run": "",
        }

    def add(self, role: str, block: Body) -> None:
        said = _said(role, block)
        if block.get("type") in THOUGHTS:
            self._claims["previous"] = signatures.digest(said)
        else:
            self._claims["messages"] = signatures.digest([self._claims["messages"], said])
        run = signatures.digest([self._claims["run"], said])
        self._claims["run"] = run if role == "assistant" else ""
        references = set(_references(block)) - self._referred
        if references:
            self._referred |= references
            self._claims["tools"] = self._tools()

    def claims(self) -> Claims:
        """What a thinking block at this point is bound to; its own text and its reply are not among it."""
        return dict(self._claims)

    def _tools(self) -> str:
        """The tool list without those that are deferred and not yet referred to (ANT-57)."""
        return signatures.digest(
            [
                _uncached(tool)
                for _, tool in typed_blocks.tools_of(self._body)
                if tool.get("defer_loading") is not True
                or typed_blocks.text_of(tool.get("name")) in self._referred
            ]
        )


def trail_of(body: Body, context: Context) -> Trail:
    """All that a request says."""
    trail = Trail(body, context)
    for block in typed_blocks.blocks_of(body):
        trail.add(block.role, block.value)
    return trail


def sign(trail: Trail, secret: bytes, *, text: str, shown: bool, reply: str) -> str:
    """`reply` names the answer and how many thinking blocks it has, e.g. ``msg_01…/2``."""
    own = {"text": signatures.digest(text), "shown": str(shown), "reply": reply}
    return signatures.seal(secret, {**trail.claims(), **own}, PREFIX)


def opened(block: Body, context: Context) -> Claims | None:
    """The claims of a block that this emulator issued, else None."""
    signature = block.get("signature")
    return signatures.unseal(context.secret, signature, PREFIX) if isinstance(signature, str) else None


def same_text(block: Body, born: Claims) -> bool:
    # Text put into the empty field of an omitted block is ignored (ANT-51).
    if born.get("shown") != "True":
        return True
    return born.get("text") == signatures.digest(typed_blocks.text_of(block.get("thinking")))


def thoughts(body: Body, context: Context) -> Iterator[tuple[Block, Claims]]:
    """Every thinking block, with what it would be bound to if it were issued where it now stands."""
    trail = Trail(body, context)
    for block in typed_blocks.blocks_of(body):
        if block.type in THOUGHTS:
            yield block, trail.claims()
        trail.add(block.role, block.value)


def _said(role: str, block: Body) -> list[Any]:
    """A block as it counts for a seal: cache marks are no part of what was said."""
    if block.get("type") in THOUGHTS:
        return [role, typed_blocks.text_of(block.get("signature")) or typed_blocks.text_of(block.get("data"))]
    return [role, {key: value for key, value in _uncached(block).items() if value is not None}]


def _uncached(value: Mapping[str, Any]) -> dict[str, Any]:
    content = value.get("content")
    kept = {key: item for key, item in value.items() if key != "cache_control"}
    if isinstance(content, list):
        kept["content"] = [_uncached(item) if isinstance(item, dict) else item for item in content]
    return kept


def _system(body: Body) -> list[Any]:
    return [_uncached(block) for _, block in typed_blocks.content_blocks(body.get("system"))]


def _references(values: object) -> Iterator[str]:
    if isinstance(values, list):
        for value in values:
            yield from _references(value)
    elif isinstance(values, dict):
        if values.get("type") == "tool_reference":
            yield typed_blocks.text_of(values.get("tool_name"))
        for key in ("content", "tool_references"):
            yield from _references(values.get(key))


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
    for block, now in thoughts(body, context):
        born = opened(block.value, context)
        if block.message < latest.first or born is None or not _ours(born, context):
            continue
        torn = born.get("run") != now["run"] or not _whole(born, latest, context)
        if torn or not same_text(block.value, born):
            yield Refusal("ANT-54", f"{block.path}: {MODIFIED}")


def _whole(born: Claims, latest: Turn, context: Context) -> bool:
    """Whether all thinking blocks of the reply are still there."""
    reply = born.get("reply", "")
    together = [
        claims
        for block in latest.of_type("thinking")
        if (claims := opened(block.value, context)) is not None and claims.get("reply") == reply
    ]
    return str(len(together)) == reply.rpartition("/")[2]


@rule("ANT-55")
def invalid_signatures(body: Body, context: Context) -> Complaints:
    for block, _ in thoughts(body, context):
        if block.type == "redacted_thinking":
            text = f"{block.path}: Invalid `data` in `redacted_thinking` block"
            yield Refusal("ANT-55", text, confidence="M")
            continue
        born = opened(block.value, context)
        foreign = born is None or (born["platform"], born["account"]) != (context.platform, context.account)
        if born is None or foreign or not same_text(block.value, born):
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
    for block, now in thoughts(body, context):
        born = opened(block.value, context)
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
