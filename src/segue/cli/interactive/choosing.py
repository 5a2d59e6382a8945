"""Commands that choose: who answers, and which conversation goes on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from segue.cli.notes import shortened, switch_line
from segue.cli.sanitise import sanitised
from segue.errors import JournalError, UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.talk import Talk
    from segue.sessions.store import SessionInfo

LISTED = 20


async def choose_model(talk: Talk, words: list[str]) -> None:
    if not words:
        talk.screen.say(f"  now: {talk.screen.paint('bold', talk.chat.model)}")
        for name in talk.around.model_names()[:LISTED]:
            talk.screen.say(f"       {name}")
        return
    await _switch(talk, words[0])


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
        talk.screen.say(
            talk.screen.paint("dim", f"  {name} answers from the next turn on: this one ends where it began.")
        )
        return
    talk.screen.say(talk.screen.paint("bold", f"⇄ {switch_line(switched)}"))


async def show_sessions(talk: Talk, words: list[str]) -> None:
    for info in await talk.around.store.find(text=" ".join(words), limit=LISTED):
        talk.screen.say("  " + session_line(info, talk.screen.width - 4))


async def resume(talk: Talk, words: list[str]) -> None:
    if not words:
        await show_sessions(talk, [])
        talk.screen.say("  /resume ID goes on with one of them.")
        return
    found = await talk.around.store.find(limit=10_000)
    meant = [info for info in found if info.id.startswith(words[0]) or info.title == " ".join(words)]
    if len(meant) != 1:
        raise JournalError(
            f'{len(meant) or "No"} sessions are called "{words[0]}".',
            code="unknown_session",
            hint="/sessions lists them; the beginning of an id is enough.",
        )
    await talk.change(talk.around.chat(session=meant[0].id))
    tell_where(talk)


def tell_where(talk: Talk) -> None:
    """Which conversation this is, and how it ended."""
    conversation = talk.chat.conversation
    talk.screen.say(
        talk.screen.paint(
            "dim", f"session {talk.chat.id} · {talk.chat.model} · {len(conversation.messages)} messages"
        )
    )
    for message in conversation.messages[-2:]:
        if message.text.strip():
            mark = ">" if message.speaker == "user" else " "
            told = shortened(sanitised(message.text), talk.screen.width - 4)
            talk.screen.say(talk.screen.paint("dim", f"{mark} {told}"))


def session_line(info: SessionInfo, width: int) -> str:
    when = datetime.fromtimestamp(info.updated, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    words = sanitised(info.title or info.first_words)
    busy = " (open elsewhere)" if info.holder is not None else ""
    return shortened(f"{info.id}  {when}  {info.model}  {words}{busy}", width)


async def store_key(talk: Talk, words: list[str]) -> None:
    if not words:
        raise UsageError("Whose key?", code="usage", hint="/key PROVIDER, for example /key anthropic.")
    with talk.cooked():
        talk.around.ask_key(words[0])
    talk.screen.say("  Stored. It holds from the next request on.")
