"""Commands that choose: who answers, and which conversation goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.commands.sessions import find_session, session_line
from segue.cli.display.status_lines import lossy_kinds, shortened, switch_line
from segue.cli.display.text_width import padded, width_of
from segue.cli.interactive.picker import pick
from segue.errors import SegueError, UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.cli.runtime import Runtime

LISTED = 20
PICKED = 200


async def choose_model(interactive: InteractiveChat, words: list[str]) -> None:
    name = words[0] if words else await _picked_model(interactive)
    if name and name != interactive.chat.model:
        await _switch(interactive, name)


async def _picked_model(interactive: InteractiveChat) -> str:
    names = list(dict.fromkeys([interactive.chat.model, *interactive.runtime.model_names()]))
    width = max(map(width_of, names))
    options = [(name, f"{padded(name, width)}  {_losses(interactive, name)}".rstrip()) for name in names]
    if interactive.can_pick:
        return await pick(
            "Who answers next? Enter chooses, esc leaves it.", options, default=interactive.chat.model
        )
    for name, told in options[:LISTED]:
        interactive.screen.line(
            interactive.screen.shortened(f"{'now:' if name == interactive.chat.model else '':>6} {told}")
        )
    return ""


def _losses(interactive: InteractiveChat, name: str) -> str:
    """What could not be told to a model as it was said, found by making the request that it would get."""
    if name == interactive.chat.model or not interactive.chat.conversation.messages:
        return ""
    try:
        lost = [
            repair
            for repair in interactive.chat.preview(interactive.runtime.members(name)[0]).repairs
            if repair.lossy
        ]
    except SegueError:
        return ""
    return f"not told there: {lossy_kinds(lost)}" if lost else "nothing is lost"


async def choose_profile(interactive: InteractiveChat, words: list[str]) -> None:
    profiles = interactive.runtime.config.profiles
    if words and words[0] not in profiles:
        raise UsageError(
            f'There is no profile "{words[0]}".',
            code="unknown_profile",
            hint=f"Known are: {', '.join(profiles)}."
            if profiles
            else "Profiles are made in the config file.",
        )
    if words:
        await _switch(interactive, words[0])
        return
    if not profiles:
        interactive.screen.paragraph(
            "  No profiles. One is made in the config file: [profiles.NAME] members = […]", indent=2
        )
    for name, profile in profiles.items():
        interactive.screen.paragraph(f"  {name}: {profile.policy} of {', '.join(profile.members)}", indent=4)


async def choose_provider(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        for name in interactive.runtime.configured():
            interactive.screen.line(f"  {name}")
        return
    model = interactive.runtime.usual_model(words[0])
    if not model:
        raise UsageError(
            f"No usual model is known for {words[0]}.",
            code="no_default_model",
            hint=f"Name one: /model {words[0]}/…",
        )
    await _switch(interactive, f"{words[0]}/{model}")


async def _switch(interactive: InteractiveChat, name: str) -> None:
    switched = await interactive.chat.switch(interactive.runtime.model(name))
    if switched is None:
        interactive.screen.paragraph(
            f"  {name} answers from the next turn on: this one ends where it began.", "dim", 2
        )
        return
    interactive.screen.paragraph(f"⇄ {switch_line(switched)}", "bold", 2)


async def show_sessions(interactive: InteractiveChat, words: list[str]) -> None:
    for info in await interactive.runtime.store.find(text=" ".join(words), limit=LISTED):
        interactive.screen.line("  " + session_line(info, interactive.screen.width - 3))


async def resume(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        session = (await find_session(interactive.runtime.store, " ".join(words))).id
    elif interactive.can_pick:
        session = await pick_session(interactive.runtime, interactive.screen.width)
    else:
        await show_sessions(interactive, [])
        interactive.screen.line("  /resume ID goes on with one of them.")
        return
    if session and session != interactive.chat.id:
        await interactive.change(interactive.runtime.chat(session=session))
        tell_where(interactive)


async def pick_session(runtime: Runtime, width: int) -> str:
    """One of the sessions that are kept, those of this directory first; nothing if none was chosen."""
    known = await runtime.store.find(limit=PICKED)
    if not known:
        raise UsageError("No session is kept yet.", code="unknown_session", hint="`segue` begins one.")
    here = str(runtime.directory)
    known = sorted(known, key=lambda info: info.directory != here)
    options = [(info.id, session_line(info, width - 6)) for info in known]
    return await pick("Which conversation goes on? Enter chooses, esc leaves.", options)


def tell_where(interactive: InteractiveChat) -> None:
    """Which conversation this is, and how it ended."""
    conversation = interactive.chat.conversation
    count = len(conversation.messages)
    told = f"session {interactive.chat.id} · {interactive.chat.model} · {count} {'message' if count == 1 else 'messages'}"
    interactive.screen.paragraph(told, "dim", 2)
    for message in conversation.messages[-2:]:
        if message.text.strip():
            mark = ">" if message.speaker == "user" else " "
            interactive.screen.line(f"{mark} {shortened(message.text, interactive.screen.width - 4)}", "dim")


async def store_key(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        raise UsageError("Whose key?", code="usage", hint="/key PROVIDER, for example /key anthropic.")
    with interactive.cooked():
        interactive.runtime.ask_key(words[0])
    interactive.screen.line("  Stored. It holds from the next request on.")
