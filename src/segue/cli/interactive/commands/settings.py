"""/set, /approval, /sandbox, /key: settings of the running chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import msgspec
from msgspec import structs

from segue.cli.commands.keys import ask_and_store
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.tools.approval import Mode
from segue.tools.sandbox.policy import SandboxMode
from segue.tools.sandbox.sandbox import grant_of_words

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
    check_known(name, ("system", *SETTABLE), "setting", "unknown_setting")
    changed = {name: _parse(name, value)}
    await interactive.chat.change(options=structs.replace(options, **changed))
    interactive.runtime.given = structs.replace(interactive.runtime.given, **changed)


def _parse(name: str, text: str) -> object:
    """The value of a setting; None for an empty text or a dash, which unset it."""
    if text in ("", "-"):
        return None
    wanted = next(field.type for field in structs.fields(Options) if field.name == name)
    try:
        return msgspec.convert(text, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{text} is not a valid {name}: {error}.", code="bad_setting") from error


def check_known(word: str, known: Collection[str], what: str, code: str) -> None:
    if word not in known:
        raise UsageError(
            f'There is no {what} "{word}".', code=code, hint=f"Choose one of: {', '.join(known)}."
        )


async def change_approval(interactive: InteractiveChat, words: list[str]) -> None:
    approval = interactive.runtime.approval
    if words:
        check_known(words[0], get_args(Mode), "approval mode", "unknown_mode")
        approval.mode = words[0]  # type: ignore[assignment]
    interactive.screen.line(f"  approval: {approval.mode}")
    rules = interactive.runtime.config.approval
    for name, patterns in (("always allowed", rules.allow), ("never allowed", rules.deny)):
        if patterns:
            interactive.screen.paragraph(f"  {name}: {', '.join(patterns)}", indent=4)


async def change_sandbox(interactive: InteractiveChat, words: list[str]) -> None:
    sandbox = interactive.runtime.sandbox
    if words[:1] == ["allow"]:
        if len(words) == 1:
            raise UsageError(
                "What to allow is missing.",
                code="usage",
                hint="/sandbox allow HOST or PATH, for example /sandbox allow pypi.org",
            )
        sandbox.granted = sandbox.granted.plus(grant_of_words(words[1:]))
    elif words:
        check_known(words[0], get_args(SandboxMode), "mode of the sandbox", "unknown_mode")
        sandbox.mode = words[0]  # type: ignore[assignment]
    held = sandbox.summary(asks=interactive.runtime.asks_about_commands)
    interactive.screen.paragraph(f"  {held}", indent=2)
    for name, given in (("may write", sandbox.granted.writable), ("may read", sandbox.granted.readable)):
        if given:
            interactive.screen.paragraph(f"  {name}: {', '.join(given)}", indent=4)


async def store_key(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        raise UsageError(
            "A provider is missing.", code="usage", hint="/key PROVIDER, for example /key anthropic"
        )
    interactive.keep_typed_ahead()
    line = await ask_and_store(words[0], force="--force" in words)
    interactive.screen.paragraph(f"  {line} It is used from the next request on.", indent=2)
