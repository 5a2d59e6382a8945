"""/model, /provider, /profile: switch the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.display.status_lines import hidden_parts
from segue.cli.display.text_width import padded, width_of
from segue.cli.display.turn_summary import short
from segue.cli.interactive.prompts.picker import pick
from segue.cli.interactive.views.turn_view import show_switch
from segue.cli.model_choice import completions, default_model_of
from segue.errors import SegueError, UsageError
from segue.providers.models.listing import catalog_models

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.providers.capabilities import ModelInfo

LISTED = 20
NARROW, WIDE = 60, 90
"""Columns from which on the context window and the prices are shown."""


async def choose_model(interactive: InteractiveChat, words: list[str]) -> None:
    name = _full_name(interactive, words[0]) if words else await _pick_model(interactive)
    if name and name != interactive.chat.model:
        await _switch(interactive, name)


def _full_name(interactive: InteractiveChat, name: str) -> str:
    """A model by a part of its name, where only one has it."""
    runtime = interactive.runtime
    if "/" in name or ":" in name or name in runtime.config.aliases or name in runtime.config.profiles:
        return name
    known = list(offered_models(interactive))
    exact = [full for full in known if full.partition("/")[2] == name]
    near = exact or [full for full in known if name.lower() in full.lower()]
    if len(near) > 1:
        raise UsageError(
            f'"{name}" may be one of {len(near)} models.',
            code="ambiguous_model",
            hint=f"Name one of them: {', '.join(near[:5])}{' …' if len(near) > 5 else ''}",
        )
    return near[0] if near else name


def offered_models(interactive: InteractiveChat) -> dict[str, ModelInfo | None]:
    """Every model that can be named without asking a provider, the current one first."""
    runtime = interactive.runtime
    names: dict[str, ModelInfo | None] = dict.fromkeys(
        [interactive.chat.model, *completions(runtime.config, runtime.providers)]
    )
    for provider in runtime.configured():
        for info in catalog_models(provider):
            if info.type == "chat":
                names[f"{provider}/{info.id}"] = info
    return names


async def _pick_model(interactive: InteractiveChat) -> str:
    screen, current = interactive.screen, interactive.chat.model
    offered = offered_models(interactive)
    width = max(map(width_of, offered))
    options = [(name, _label(name, info, width, screen.width)) for name, info in offered.items()]
    if interactive.can_pick:
        interactive.keep_typed_ahead()
        return await pick(
            "Switch to which model?",
            options,
            default=current,
            note=lambda name: "now" if name == current else _hidden(interactive, name),
            colourless=screen.paint.colourless,
        )
    for name, line in options[:LISTED]:
        screen.line(screen.shortened(f"{'now:' if name == current else '':>6} {line}"))
    return ""


def _label(name: str, info: ModelInfo | None, width: int, columns: int) -> str:
    """The name; with its context window and its prices where there is room."""
    context = f"{short(info.context)}" if info and info.context else ""
    price = ""
    if info and info.input_price is not None and info.output_price is not None:
        price = f"${info.input_price:g} / ${info.output_price:g}"
    parts = [padded(name, width)] if columns >= NARROW else [name]
    if columns >= NARROW:
        parts.append(f"{context:>6}")
    if columns >= WIDE:
        parts.append(f"{price:>14}")
    return "  ".join(parts)


def _hidden(interactive: InteractiveChat, name: str) -> str:
    """What the model would not see, found by making its next request."""
    if name == interactive.chat.model or not interactive.chat.conversation.messages:
        return ""
    try:
        repairs = interactive.chat.preview(interactive.runtime.resolve(name).members[0]).repairs
    except SegueError:
        return ""
    hidden = hidden_parts(repair for repair in repairs if repair.lossy)
    return f"without {hidden}" if hidden else "nothing is lost"


async def choose_profile(interactive: InteractiveChat, words: list[str]) -> None:
    profiles = interactive.runtime.config.profiles
    if words and words[0] not in profiles:
        raise UsageError(
            f'There is no profile "{words[0]}".',
            code="unknown_profile",
            hint=f"Known profiles: {', '.join(profiles)}."
            if profiles
            else "Profiles are defined in the config file.",
        )
    if words:
        await _switch(interactive, words[0])
        return
    if not profiles:
        interactive.screen.paragraph(
            "  No profiles. Define one in the config file: [profiles.NAME] members = […]", indent=2
        )
    for name, profile in profiles.items():
        interactive.screen.paragraph(f"  {name}: {profile.policy} of {', '.join(profile.members)}", indent=4)


async def choose_provider(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        for name in interactive.runtime.configured():
            interactive.screen.line(f"  {name}")
        return
    model = default_model_of(words[0], interactive.runtime.config)
    if not model:
        raise UsageError(
            f"{words[0]} has no default model.",
            code="no_default_model",
            hint=f"Name a model: /model {words[0]}/…",
        )
    await _switch(interactive, f"{words[0]}/{model}")


async def _switch(interactive: InteractiveChat, name: str) -> None:
    switch = await interactive.chat.switch(interactive.runtime.model(name))
    if switch is None:
        interactive.screen.paragraph(f"  {name} answers from the next turn on.", "dim", 2)
        return
    show_switch(interactive.screen, switch, interactive.chat.conversation)
