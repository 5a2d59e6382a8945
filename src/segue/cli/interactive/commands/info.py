"""/help, /stats, /context, /tools, /mcp, /quit: information about the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.commands.agents import agent_lines
from segue.cli.display.status_lines import shortened
from segue.cli.display.text_width import wrapped
from segue.cli.display.turn_summary import dollars, short
from segue.cli.interactive.commands.settings import check_known
from segue.cli.interactive.commands.table import COMMANDS
from segue.providers.token_counts import estimate_parts
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

KEYS = (
    ("enter", "send; new line: ctrl-j, alt-enter, or \\ and enter"),
    ("esc, ctrl-c", "interrupt a turn; the conversation stays valid. ctrl-c twice: leave"),
    ("esc esc", "remove the last turn and edit its prompt"),
    ("ctrl-o", "show or hide the model's reasoning"),
    ("shift-tab, ctrl-y", "next approval mode; yolo on and off"),
    ("ctrl-r, ctrl-g", "search earlier prompts; write in $EDITOR"),
    ("@file", "attach a file, also an image"),
    ("!command", "run a shell command; the model sees its output with the next message"),
)
COLUMN = 22


async def show_help(interactive: InteractiveChat, _words: list[str]) -> None:
    for command in COMMANDS:
        also = f" (also /{', /'.join(command.aliases)})" if command.aliases else ""
        _row(interactive, f"/{command.name} {command.takes}".rstrip(), f"{command.purpose}{also}")
    interactive.screen.line()
    for keys, purpose in KEYS:
        _row(interactive, keys, purpose)


def _row(interactive: InteractiveChat, name: str, purpose: str) -> None:
    first, *more = wrapped(purpose, interactive.screen.width - COLUMN - 4)
    interactive.screen.line(f"  {interactive.screen.paint('bold', f'{name:<{COLUMN}}')} {first}")
    for line in more:
        interactive.screen.line(f"{'':<{COLUMN + 3}}{line}")


async def show_statistics(interactive: InteractiveChat, _words: list[str]) -> None:
    chat = interactive.chat
    usage, state = chat.usage, chat.journal.state
    rows = [
        ("session", f"{chat.id}{' · ' + sanitised(state.title) if state.title else ''}"),
        ("model", chat.model),
        ("turns", str(state.turns)),
        ("messages", str(len(chat.conversation.messages))),
        ("tokens in", f"{short(usage.input_tokens or 0)} ({short(usage.cached_tokens or 0)} cached)"),
        ("tokens out", f"{short(usage.output_tokens or 0)} ({short(usage.reasoning_tokens or 0)} reasoning)"),
        ("cost", "unknown" if chat.cost is None else dollars(chat.cost)),
    ]
    if interactive.forked_cost:
        rows.append(("", f"and {dollars(interactive.forked_cost)} before the fork, counted in that session"))
    if usage.estimated:
        rows.append(("", "a part of it is an estimate: not every reply was counted"))
    for name, value in rows:
        interactive.screen.line(f"  {name:<12} {value}")
    for line in _members(interactive):
        interactive.screen.paragraph(f"  {line}", indent=4)


async def show_context(interactive: InteractiveChat, _words: list[str]) -> None:
    """`/context`: what fills the context window of the model that answers next."""
    chat, screen = interactive.chat, interactive.screen
    specs = [tool.spec for tool in interactive.runtime.tools]
    parts = estimate_parts(chat.conversation, specs, chat.model)
    whole = sum(tokens for _, tokens in parts.values())
    limit = chat.router.context_limit
    size = f"of {short(limit)} tokens" if limit else "tokens; the size of the window is not known"
    share = f" ({whole / limit:.0%})" if limit else ""
    screen.line(f"  About {short(whole)} {size}{share} · {chat.model}", "bold")
    widest = max((tokens for _, tokens in parts.values()), default=0)
    for name, (count, tokens) in parts.items():
        bar = "█" * max(1, round(20 * tokens / widest))
        screen.line(f"  {name:<17} {short(tokens):>6}  {bar:<20}  {count if count > 1 else ''}".rstrip())
    if last := interactive.context_tokens:
        screen.line(f"  The provider counted {short(last)} tokens at the last answer.", "dim")
    screen.paragraph("  The parts are estimates. Make the conversation shorter: /compact", "dim", 2)


def _members(interactive: InteractiveChat) -> list[str]:
    """What the router has counted for each of its models."""
    lines = [
        f"{member.name}: {member.requests} requests, {member.failures} failed"
        + (f", {member.breaker}" if member.breaker != "closed" else "")
        + (f", its limit is used up for {member.limited:.0f} s" if member.limited else "")
        for member in interactive.chat.router.statistics()
    ]
    return lines if len(lines) > 1 else []


async def show_tools(interactive: InteractiveChat, _words: list[str]) -> None:
    tools = interactive.runtime.tools
    if not tools:
        interactive.screen.line("  No tools. Add them: segue -T all, or tools.enabled in the config file.")
    for tool in tools:
        description = shortened(tool.spec.description, interactive.screen.width - 32)
        interactive.screen.line(
            f"  {tool.name:<20} {tool.effect:<6} {interactive.screen.paint('dim', description)}"
        )


async def show_servers(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        check_known(words[0], ("reload",), "action", "unknown_action")
        await interactive.runtime.reload_servers()
        await interactive.chat.equip(interactive.runtime.tools)
    for line in interactive.runtime.servers() or [
        "No MCP servers. Add them in .mcp.json or in the config file."
    ]:
        interactive.screen.paragraph(f"  {line}", indent=4)


async def show_agents(interactive: InteractiveChat, _words: list[str]) -> None:
    lines = agent_lines(interactive.runtime.directory)
    for line in lines or ["No agents. One is a Markdown file: docs/cli.md"]:
        interactive.screen.paragraph(f"  {line}", indent=4)
    if lines:
        interactive.screen.paragraph("  Offer them to the model: segue -T agents", "dim", 2)


async def leave(interactive: InteractiveChat, _words: list[str]) -> None:
    interactive.leaving = True
