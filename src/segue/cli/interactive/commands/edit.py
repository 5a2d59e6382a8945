"""Commands that change the conversation or how it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import msgspec
from msgspec import structs

from segue.chat.compaction import Strategy
from segue.cli.interactive.commands.select import tell_where
from segue.cli.interactive.turn_view import compaction_line
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.tools.approval import Mode

if TYPE_CHECKING:
    from collections.abc import Collection

    from segue.cli.interactive.interactive_chat import InteractiveChat

SETTABLE: Final = (
    "temperature",
    "max_tokens",
    "top_p",
    "top_k",
    "repeat_penalty",
    "seed",
    "effort",
    "thinking_budget",
)


async def compact(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        _check_known(words[0], get_args(Strategy), "strategy", "unknown_strategy")
    strategy: Strategy | None = words[0] if words else None  # type: ignore[assignment]
    async with interactive.watched("compacting") as view:
        done = await interactive.chat.compact(strategy)
    if done is not None:
        interactive.screen.paragraph(compaction_line(done), "yellow", 2)
    elif view.interrupted:
        interactive.screen.line("⊘ interrupted; nothing was left out", "yellow")
    else:
        interactive.screen.line("  There is nothing to leave out.")


async def undo(interactive: InteractiveChat, words: list[str]) -> None:
    for _ in range(_count(words)):
        await interactive.chat.undo()
    interactive.screen.line("  Taken back. What tools did to the world stays done.")
    tell_where(interactive)


async def rewind(interactive: InteractiveChat, words: list[str]) -> None:
    """Take turns back and put what began them into the prompt, to be said differently."""
    said = [message.text for message in interactive.chat.conversation.messages if message.speaker == "user"]
    count = _count(words)
    await undo(interactive, words)
    interactive.unsent = said[-count] if count <= len(said) else ""


async def redo(interactive: InteractiveChat, words: list[str]) -> None:
    for _ in range(_count(words)):
        await interactive.chat.redo()
    tell_where(interactive)


def _count(words: list[str]) -> int:
    return int(words[0]) if words and words[0].isdecimal() else 1


async def fork(interactive: InteractiveChat, words: list[str]) -> None:
    del words
    before = interactive.chat.id
    await interactive.change(await interactive.chat.fork())
    interactive.screen.line(f"  {before} is kept as it is; this is {interactive.chat.id} from now on.")


async def begin(interactive: InteractiveChat, words: list[str]) -> None:
    del words
    await interactive.change(interactive.runtime.chat(model=interactive.chat.model))
    interactive.screen.line(
        f"  A new conversation: {interactive.chat.id}. The one before is kept; /sessions lists it."
    )


async def clear(interactive: InteractiveChat, words: list[str]) -> None:
    interactive.screen.clear()
    await begin(interactive, words)


async def save(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        raise UsageError("What shall it be called?", code="usage", hint="/save TITLE")
    await interactive.chat.rename(" ".join(words))
    interactive.screen.line(f"  Saved as {' '.join(words)}.")


async def change_setting(interactive: InteractiveChat, words: list[str]) -> None:
    options = interactive.chat.options
    if not words:
        for name in SETTABLE:
            value = getattr(options, name)
            interactive.screen.line(f"  {name:<16} {'-' if value is None else value}")
        return
    name, value = words[0], " ".join(words[1:])
    if name == "system":
        await interactive.chat.change(system=value)
        return
    _check_known(name, ("system", *SETTABLE), "setting", "unknown_setting")
    await interactive.chat.change(options=structs.replace(options, **{name: _read(name, value)}))


def _read(name: str, text: str) -> object:
    """The value as the setting wants it. Nothing, or a dash, unsets it."""
    if text in ("", "-"):
        return None
    wanted = next(field.type for field in structs.fields(Options) if field.name == name)
    try:
        return msgspec.convert(text, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{text} will not do for {name}: {error}.", code="bad_setting") from error


def _check_known(word: str, known: Collection[str], what: str, code: str) -> None:
    if word not in known:
        raise UsageError(f'There is no {what} "{word}".', code=code, hint=f"Known are: {', '.join(known)}.")


async def change_approval(interactive: InteractiveChat, words: list[str]) -> None:
    approval = interactive.runtime.approval
    if words:
        _check_known(words[0], get_args(Mode), "approval mode", "unknown_mode")
        approval.mode = words[0]  # type: ignore[assignment]
    interactive.screen.line(f"  approval: {approval.mode}")
    rules = interactive.runtime.config.approval
    for name, patterns in (("never asked about", rules.allow), ("never allowed", rules.deny)):
        if patterns:
            interactive.screen.paragraph(f"  {name}: {', '.join(patterns)}", indent=4)
