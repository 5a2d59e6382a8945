"""Commands that tell something and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.interactive.commands import COMMANDS
from segue.cli.notes import shortened
from segue.cli.sanitise import sanitised
from segue.cli.status import dollars, short

if TYPE_CHECKING:
    from segue.cli.interactive.talk import Talk

KEYS = (
    ("enter", "send; ctrl-j, alt-enter or \\ at the end of a line: a new line"),
    ("esc, ctrl-c", "interrupt a turn; the conversation stays valid. Ctrl-C twice leaves"),
    ("ctrl-o", "show what the model thought"),
    ("shift-tab", "the next approval mode"),
    ("ctrl-r, ctrl-g", "search what was typed before; write in $EDITOR"),
    ("@file", "send a file along"),
    ("!command", "run it here and tell the model what it said"),
)


async def show_help(talk: Talk, words: list[str]) -> None:
    del words
    for command in COMMANDS:
        typed = f"/{command.name} {command.takes}".rstrip()
        also = f" (also /{', /'.join(command.aliases)})" if command.aliases else ""
        talk.screen.say(f"  {talk.screen.paint('bold', f'{typed:<22}')} {command.purpose}{also}")
    talk.screen.say()
    for keys, purpose in KEYS:
        talk.screen.say(f"  {talk.screen.paint('bold', f'{keys:<22}')} {purpose}")


async def show_statistics(talk: Talk, words: list[str]) -> None:
    del words
    chat = talk.chat
    usage, state = chat.usage, chat.journal.state
    rows = [
        ("session", f"{chat.id}{' · ' + sanitised(state.title) if state.title else ''}"),
        ("model", chat.model),
        ("turns", str(state.turns)),
        ("messages", str(len(chat.conversation.messages))),
        ("tokens in", f"{short(usage.input_tokens or 0)} ({short(usage.cached_tokens or 0)} from caches)"),
        ("tokens out", f"{short(usage.output_tokens or 0)} ({short(usage.reasoning_tokens or 0)} thought)"),
        ("cost", "not known" if chat.cost is None else dollars(chat.cost)),
    ]
    for name, value in rows:
        talk.screen.say(f"  {name:<12} {value}")
    for line in _members(talk):
        talk.screen.say(f"  {line}")


def _members(talk: Talk) -> list[str]:
    """What a router knows about those it chooses among."""
    told = [
        f"{member.name}: {member.requests} requests, {member.failures} failed"
        + (f", {member.breaker}" if member.breaker != "closed" else "")
        for member in talk.chat.router.statistics()
    ]
    return told if len(told) > 1 else []


async def show_tools(talk: Talk, words: list[str]) -> None:
    del words
    tools = talk.around.tools
    if not tools:
        talk.screen.say("  No tools. Start with -T all, or name them in the config file.")
    for tool in tools:
        told = shortened(sanitised(tool.spec.description), talk.screen.width - 36)
        talk.screen.say(f"  {tool.name:<20} {tool.effect:<6} {talk.screen.paint('dim', told)}")


async def show_servers(talk: Talk, words: list[str]) -> None:
    del words
    for line in talk.around.servers() or ["No MCP servers. Name them in .mcp.json or in the config file."]:
        talk.screen.say(f"  {line}")


async def leave(talk: Talk, words: list[str]) -> None:
    del words
    talk.leaving = True
