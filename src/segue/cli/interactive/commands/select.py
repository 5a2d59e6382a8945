"""Commands that choose: who answers, and which conversation goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.commands.sessions import find_session, session_line
from segue.cli.display.status_lines import lossy_kinds, shortened, switch_line
from segue.cli.display.text_width import padded, width_of
from segue.cli.interactive.picker import pick
from segue.errors import SegueError, UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import Talk
    from segue.cli.runtime import Surroundings

LISTED = 20
PICKED = 200


async def choose_model(talk: Talk, words: list[str]) -> None:
    name = words[0] if words else await _picked_model(talk)
    if name and name != talk.chat.model:
        await _switch(talk, name)


async def _picked_model(talk: Talk) -> str:
    names = list(dict.fromkeys([talk.chat.model, *talk.around.model_names()]))
    width = max(map(width_of, names))
    options = [(name, f"{padded(name, width)}  {_losses(talk, name)}".rstrip()) for name in names]
    if talk.can_pick:
        return await pick("Who answers next? Enter chooses, esc leaves it.", options, default=talk.chat.model)
    for name, told in options[:LISTED]:
        talk.screen.say(talk.screen.shortened(f"{'now:' if name == talk.chat.model else '':>6} {told}"))
    return ""


def _losses(talk: Talk, name: str) -> str:
    """What could not be told to a model as it was said, found by making the request that it would get."""
    if name == talk.chat.model or not talk.chat.conversation.messages:
        return ""
    try:
        lost = [repair for repair in talk.chat.preview(talk.around.members(name)[0]).repairs if repair.lossy]
    except SegueError:
        return ""
    return f"not told there: {lossy_kinds(lost)}" if lost else "nothing is lost"


async def choose_profile(talk: Talk, words: list[str]) -> None:
    profiles = talk.around.config.profiles
    if words and words[0] not in profiles:
        raise UsageError(
            f'There is no profile "{words[0]}".',
            code="unknown_profile",
            hint=f"Known are: {', '.join(profiles)}."
            if profiles
            else "Profiles are made in the config file.",
        )
    if words:
        await _switch(talk, words[0])
        return
    if not profiles:
        talk.screen.tell(
            "  No profiles. One is made in the config file: [profiles.NAME] members = […]", indent=2
        )
    for name, profile in profiles.items():
        talk.screen.tell(f"  {name}: {profile.policy} of {', '.join(profile.members)}", indent=4)


async def choose_provider(talk: Talk, words: list[str]) -> None:
    if not words:
        for name in talk.around.configured():
            talk.screen.say(f"  {name}")
        return
    model = talk.around.usual_model(words[0])
    if not model:
        raise UsageError(
            f"No usual model is known for {words[0]}.",
            code="no_default_model",
            hint=f"Name one: /model {words[0]}/…",
        )
    await _switch(talk, f"{words[0]}/{model}")


async def _switch(talk: Talk, name: str) -> None:
    switched = await talk.chat.switch(talk.around.model(name))
    if switched is None:
        talk.screen.tell(f"  {name} answers from the next turn on: this one ends where it began.", "dim", 2)
        return
    talk.screen.tell(f"⇄ {switch_line(switched)}", "bold", 2)


async def show_sessions(talk: Talk, words: list[str]) -> None:
    for info in await talk.around.store.find(text=" ".join(words), limit=LISTED):
        talk.screen.say("  " + session_line(info, talk.screen.width - 3))


async def resume(talk: Talk, words: list[str]) -> None:
    if words:
        session = (await find_session(talk.around.store, " ".join(words))).id
    elif talk.can_pick:
        session = await pick_session(talk.around, talk.screen.width)
    else:
        await show_sessions(talk, [])
        talk.screen.say("  /resume ID goes on with one of them.")
        return
    if session and session != talk.chat.id:
        await talk.change(talk.around.chat(session=session))
        tell_where(talk)


async def pick_session(around: Surroundings, width: int) -> str:
    """One of the sessions that are kept, those of this directory first; nothing if none was chosen."""
    known = await around.store.find(limit=PICKED)
    if not known:
        raise UsageError("No session is kept yet.", code="unknown_session", hint="`segue` begins one.")
    here = str(around.directory)
    known = sorted(known, key=lambda info: info.directory != here)
    options = [(info.id, session_line(info, width - 6)) for info in known]
    return await pick("Which conversation goes on? Enter chooses, esc leaves.", options)


def tell_where(talk: Talk) -> None:
    """Which conversation this is, and how it ended."""
    conversation = talk.chat.conversation
    count = len(conversation.messages)
    told = f"session {talk.chat.id} · {talk.chat.model} · {count} {'message' if count == 1 else 'messages'}"
    talk.screen.tell(told, "dim", 2)
    for message in conversation.messages[-2:]:
        if message.text.strip():
            mark = ">" if message.speaker == "user" else " "
            talk.screen.say(f"{mark} {shortened(message.text, talk.screen.width - 4)}", "dim")


async def store_key(talk: Talk, words: list[str]) -> None:
    if not words:
        raise UsageError("Whose key?", code="usage", hint="/key PROVIDER, for example /key anthropic.")
    with talk.cooked():
        talk.around.ask_key(words[0])
    talk.screen.say("  Stored. It holds from the next request on.")
