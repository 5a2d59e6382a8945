"""The tools and approvals of a session: kept in its journal, and restored when it is resumed.

A journal may come from elsewhere, so nothing in it is a permission: what could do harm is restored only if the user
approved it in this folder. They are asked once; where nobody can be asked, it is reported.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, final, get_args

from msgspec import Struct

from segue.cli.tool_loader import is_function
from segue.config.trust import approve, is_approved
from segue.errors import SegueError
from segue.sessions.entries import AllowedCall, ToolGrant
from segue.tools.approval import Mode
from segue.tools.definition import Tool

AskConsent: TypeAlias = Callable[[Sequence[str]], Awaitable[bool]]
"""Asks whether these may be used again, one line each."""
LoadTools: TypeAlias = Callable[[Iterable[str]], Iterable[Tool]]

_CAREFUL: Final[tuple[Mode, ...]] = ("plan", "ask")
"""Modes that approve nothing that could do harm."""


@final
class RiskyPart(Struct, frozen=True, kw_only=True):
    """Something of a session that could do harm, and what the user's consent is about."""

    label: str
    """What it is, for people."""
    subject: str
    """What exactly is approved: it differs when the content of a file does."""
    flags: str
    """What gives the same on the command line."""
    tool: str = ""
    mode: Mode | None = None
    allow: AllowedCall | None = None


@final
class Restored(Struct, kw_only=True):
    """What a session has again, and what it does not have, one line each."""

    tools: list[Tool] = []
    names: list[str] = []
    """Of the tools, as they were given."""
    mode: Mode | None = None
    allow: list[AllowedCall] = []
    missing: list[str] = []
    declined: list[str] = []
    """Tools that the user did not want again."""
    unasked: bool = False
    """Something is missing because nobody could be asked: the session keeps it for the next time."""


async def restore(
    grant: ToolGrant, *, session: str, load: LoadTools, usual: Mode, ask: AskConsent | None
) -> Restored:
    """What may be used again. `usual`: the approval mode of the settings; `ask`: None where nobody can be asked."""
    found = Restored()
    risky: list[RiskyPart] = []
    for name in grant.tools:
        if not is_function(name):
            _load(name, load, found)
        elif (part := _function(name)) is not None:
            risky.append(part)
        else:
            found.missing.append(f"{name}: the file is gone")
    if grant.mode in get_args(Mode):
        mode: Mode = grant.mode  # type: ignore[assignment]  # it is one of them
        if mode in (*_CAREFUL, usual):
            found.mode = mode
        else:
            label, flag = f"approval mode {mode}", f"--approval-mode {mode}"
            risky.append(RiskyPart(label=label, subject=label, flags=flag, mode=mode))
    risky += [_allowed(call) for call in grant.allow]
    here = str(Path.cwd())
    unknown = [part for part in risky if not is_approved(here, session, part.subject)]
    found.unasked = bool(unknown) and ask is None
    consents = False
    if unknown and ask is not None:
        consents = await ask([part.label for part in unknown])
        if consents:
            approve(here, session, [part.subject for part in unknown])
    for part in risky:
        if part in unknown and not consents:
            why = (
                "you did not want it"
                if ask is not None
                else "it was not approved in this folder as it is now"
            )
            found.missing.append(f"{part.label}: {why}. To use it: {part.flags}")
            found.declined += [part.tool] if part.tool and ask is not None else []
        else:
            _use(part, load, found)
    return found


def approve_given(grant: ToolGrant, session: str) -> None:
    """What the user has named or allowed just now, here, needs no other question. A mode that allows everything does:
    who resumes a session days later may have forgotten it."""
    parts = [part for name in grant.tools if is_function(name) and (part := _function(name)) is not None]
    parts += [_allowed(call) for call in grant.allow]
    if parts:
        approve(str(Path.cwd()), session, [part.subject for part in parts])


def whole_name(name: str) -> str:
    """The name of a tool that means the same in every folder."""
    if not is_function(name):
        return name
    path, _, function = name.rpartition(":")
    return f"{Path(path).expanduser().resolve()}:{function}"


def _use(part: RiskyPart, load: LoadTools, found: Restored) -> None:
    if part.tool:
        _load(part.tool, load, found)
    if part.allow is not None:
        found.allow.append(part.allow)
    found.mode = part.mode or found.mode


def _load(name: str, load: LoadTools, found: Restored) -> None:
    try:
        found.tools += load([name])
        found.names.append(name)
    except SegueError as error:
        found.missing.append(f"{name}: {error.message}")


def _function(name: str) -> RiskyPart | None:
    """None if its file cannot be read."""
    path, _, function = name.rpartition(":")
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None
    label, flags = f"the function {function} of {path}", f"-T {shlex.quote(name)}"
    return RiskyPart(label=label, subject=f"{name} {digest}", flags=flags, tool=name)


def _allowed(call: AllowedCall) -> RiskyPart:
    text = call.tool if call.subject is None else f"{call.tool}({call.subject})"
    flags = f"--allowed-tools {shlex.quote(text)}"
    return RiskyPart(
        label=f"without a question: {text}", subject=f"{text} {call.exact}", flags=flags, allow=call
    )
