"""What one model can do and another cannot: sampling, thinking modes, forced tools, prefill, system messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import typed_blocks
from segue.emulators.anthropic.threads import is_resumed
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.anthropic.typed_blocks import Body

NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
USE_ADAPTIVE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
# What the API advises when a model cannot stop thinking; model_facts.toml says which of them a model gives (ANT-50).
CANNOT_DISABLE = {
    "adaptive": f'"thinking.type.disabled" is not supported for this model. {USE_ADAPTIVE}',
    "enabled": (
        '"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when not'
        ' specified; use "thinking.type.enabled" with "budget_tokens" for extended thinking.'
    ),
    "between_tools": 'To turn thinking off on this model, send "thinking": {"type": "between_tools"}',
}
BUDGET_TOO_BIG = (
    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at"
    " https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
)
DIRECTIVE_ONLY = "; the directive-only form (content: [] with output_config) is accepted at any position"


def complaints(body: Body, context: Context) -> Complaints:
    yield from unknown_model(body, context)
    yield from too_many_output_tokens(body, context)
    yield from sampling_parameters(body, context)
    yield from thinking_modes(body, context)
    yield from thinking_budget(body, context)
    yield from effort(body, context)
    yield from forced_choice(body, context)
    yield from prewarming(body)
    yield from system_messages(body, context)
    yield from empty_system_messages(body)
    yield from prefill(body, context)


@rule("ANT-05")
def unknown_model(body: Body, context: Context) -> Complaints:
    if not context.facts and isinstance(body.get("model"), str):
        yield Refusal("ANT-05", f"model: {body['model']}", status=404, type="not_found_error")


@rule("ANT-05")
def too_many_output_tokens(body: Body, context: Context) -> Complaints:
    asked, most = body.get("max_tokens"), context.facts.get("max_output")
    if isinstance(asked, int) and isinstance(most, int) and asked > most:
        tail = f"which is the maximum allowed number of output tokens for {context.model}"
        yield Refusal("ANT-05", f"max_tokens: {asked} > {most}, {tail}")


@rule("ANT-03")
def sampling_parameters(body: Body, context: Context) -> Complaints:
    given = [key for key in ("temperature", "top_p", "top_k") if body.get(key) is not None]
    for key in given:
        if typed_blocks.version_of(context) >= "2026-10-21":
            yield Refusal("ANT-03", f"{key}: Extra inputs are not permitted")
        elif context.facts.get("sampling") is False:
            yield Refusal("ANT-03", f"{key} is deprecated for this model")
    if typed_blocks.thinking_mode(body) not in ("enabled", "adaptive"):
        return
    if body.get("temperature") not in (None, 1):
        text = "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode"
        yield Refusal("ANT-03", text)
    if isinstance(body.get("top_p"), int | float) and body["top_p"] < 0.95:
        text = "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled"
        yield Refusal("ANT-03", text)


@rule("ANT-50")
def thinking_modes(body: Body, context: Context) -> Complaints:
    mode, modes = typed_blocks.thinking_mode(body), context.facts.get("thinking")
    if not mode or modes is None:
        return
    if mode not in modes:
        yield Refusal("ANT-50", _refused_mode(mode, context))
    highest = typed_blocks.record_of(body.get("output_config")).get("effort")
    if mode == "disabled" and highest in context.facts.get("efforts_needing_thinking", ()):
        yield Refusal("ANT-50", CANNOT_DISABLE["adaptive"])


def _refused_mode(mode: str, context: Context) -> str:
    if mode == "disabled":
        return CANNOT_DISABLE[context.facts.get("cannot_disable", "adaptive")]
    if mode == "adaptive":
        return "adaptive thinking is not supported on this model"
    return f'"thinking.type.{mode}" is not supported for this model. {USE_ADAPTIVE}'


@rule("ANT-50")
def thinking_budget(body: Body, context: Context) -> Complaints:
    budget = typed_blocks.record_of(body.get("thinking")).get("budget_tokens")
    most = body.get("max_tokens")
    if (
        typed_blocks.thinking_mode(body) != "enabled"
        or not isinstance(budget, int)
        or not isinstance(most, int)
    ):
        return
    # With interleaved thinking the budget may be spread over several replies of a tool loop.
    if budget >= most and not (body.get("tools") and typed_blocks.has_beta(context, "interleaved-thinking")):
        yield Refusal("ANT-50", BUDGET_TOO_BIG)


@rule("ANT-05")
def effort(body: Body, context: Context) -> Complaints:
    asked = typed_blocks.record_of(body.get("output_config")).get("effort")
    levels = context.facts.get("efforts", ())
    if asked is None or asked in levels:
        return
    if levels:
        text = f"This model does not support effort level '{asked}'. Supported levels: {', '.join(sorted(levels))}."
        yield Refusal("ANT-05", text)
    else:
        yield Refusal("ANT-05", "This model does not support the effort parameter.", confidence="M")


@rule("ANT-43")
def forced_choice(body: Body, context: Context) -> Complaints:
    if typed_blocks.choice_of(body) not in ("any", "tool"):
        return
    if context.facts.get("forced_tool_choice") is False:
        yield Refusal("ANT-43", 'tool_choice: type "tool" and "any" are not supported for this model')
    if typed_blocks.thinking_mode(body) == "enabled":
        yield Refusal("ANT-43", "Thinking may not be enabled when tool_choice forces tool use.")


@rule("ANT-87")
def prewarming(body: Body) -> Complaints:
    """`max_tokens: 0` only warms the cache: nothing may ask for output at the same time."""
    if body.get("max_tokens") != 0 or isinstance(body["max_tokens"], bool):
        return
    wants_output = (
        body.get("stream"),
        typed_blocks.thinking_mode(body) == "enabled",
        typed_blocks.choice_of(body) in ("any", "tool"),
        body.get("output_format") or typed_blocks.record_of(body.get("output_config")).get("format"),
    )
    if any(wants_output):
        yield Refusal("ANT-87", "max_tokens: Input should be greater than or equal to 1")


@rule("ANT-16")
def system_messages(body: Body, context: Context) -> Complaints:
    turns = typed_blocks.turns_of(body)
    for place, turn in enumerate(turns):
        if turn.role != "system":
            continue
        if context.facts.get("system_messages") is not True:
            yield Refusal("ANT-16", "role 'system' is not supported on this model")
            return
        yield from _misplaced_system(turns, place)
        yield from _system_content(turn)


def _misplaced_system(turns: list[typed_blocks.Turn], place: int) -> Complaints:
    turn = turns[place]
    if not turn.blocks:
        return
    where = f"messages.{turn.first}"
    if place == 0:
        text = f"{where}: use the top-level 'system' parameter for the initial system prompt{DIRECTIVE_ONLY}"
        yield Refusal("ANT-16", text)
        return
    before = turns[place - 1]
    if before.role != "user" and not (before.blocks and before.blocks[-1].type.endswith("_tool_result")):
        text = (
            f"{where}: role 'system' must follow a 'user' message or an 'assistant' message ending in a server"
            f" tool result{DIRECTIVE_ONLY}"
        )
        yield Refusal("ANT-16", text)
    if place + 1 < len(turns) and turns[place + 1].role != "assistant":
        text = f"{where}: role 'system' must precede an 'assistant' message or end the array{DIRECTIVE_ONLY}"
        yield Refusal("ANT-16", text)


def _system_content(turn: typed_blocks.Turn) -> Complaints:
    if any(block.type not in ("text", "tool_addition", "tool_removal") for block in turn.blocks):
        text = (
            f"messages.{turn.first}: role 'system' supports text, tool_addition, and tool_removal blocks only"
        )
        yield Refusal("ANT-16", text)


@rule("ANT-16")
def empty_system_messages(body: Body) -> Complaints:
    """Without content a system message is legal only as a directive, which carries `output_config`."""
    for index, message in typed_blocks.messages_of(body):
        if message.get("role") != "system" or message.get("content") or message.get("output_config"):
            continue
        yield Refusal("ANT-16", f"messages.{index}: system content must contain at least one block")


@rule("ANT-15")
def prefill(body: Body, context: Context) -> Complaints:
    turns = [turn for turn in typed_blocks.turns_of(body) if turn.role in ("user", "assistant")]
    if not turns or turns[-1].role != "assistant":
        return
    if context.facts.get("prefill") is False and not (_paused(turns[-1]) or is_resumed(body, context)):
        yield Refusal("ANT-15", NO_PREFILL)
    last = turns[-1].blocks[-1] if turns[-1].blocks else None
    ending = last.text("text") if last is not None and last.type == "text" else ""
    if ending != ending.rstrip():
        yield Refusal("ANT-15", "messages: final assistant content cannot end with trailing whitespace")


def _paused(turn: typed_blocks.Turn) -> bool:
    """After `pause_turn` the reply is sent back unchanged, to be continued (ANT-30)."""
    return any(
        block.type == "server_tool_use" or block.type.endswith("_tool_result") for block in turn.blocks
    )
