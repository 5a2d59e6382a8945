"""/model, /provider, /profile: switch the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.display.status_lines import hidden_parts
from segue.cli.display.text_width import padded, width_of
from segue.cli.interactive.picker import pick
from segue.cli.interactive.switch_view import show_switch
from segue.cli.model_discovery import default_model_of
from segue.errors import SegueError, UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

LISTED = 20


async def choose_model(interactive: InteractiveChat, words: list[str]) -> None:
    name = words[0] if words else await _pick_model(interactive)
    if name and name != interactive.chat.model:
        await _switch(interactive, name)


async def _pick_model(interactive: InteractiveChat) -> str:
    screen, current = interactive.screen, interactive.chat.model
    names = list(dict.fromkeys([current, *interactive.runtime.model_names()]))
    width = max(map(width_of, names))
    options = [(name, f"{padded(name, width)}  {_hidden(interactive, name)}".rstrip()) for name in names]
    if interactive.can_pick:
        interactive.keep_typed_ahead()
        return await pick("Switch to which model? enter: select · esc: cancel", options, default=current)
    for name, line in options[:LISTED]:
        screen.line(screen.shortened(f"{'now:' if name == current else '':>6} {line}"))
    return ""


def _hidden(interactive: InteractiveChat, name: str) -> str:
    """What the model would not see, found by making its next request."""
    if name == interactive.chat.model or not interactive.chat.conversation.messages:
        return ""
    try:
        repairs = interactive.chat.preview(interactive.runtime.members(name)[0]).repairs
    except SegueError:
        return ""
    hidden = hidden_parts(repair for repair in repairs if repair.lossy)
    return f"would not see: {hidden}" if hidden else "nothing is lost"


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
