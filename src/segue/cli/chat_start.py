"""How a chat begins on the command line: a new one, or one that goes on, with who answers it said in the open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.cli.display.status_lines import switch_line
from segue.cli.one_shot.interrupts import would_lose
from segue.cli.one_shot.prompts import has_prompt
from segue.errors import SegueError
from segue.routing.route import Route
from segue.sessions.journal import fork

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from segue.chat.chat import Chat
    from segue.chat.lifecycle import Model
    from segue.cli.runtime import Runtime
    from segue.events import Switch
    from segue.sessions.stores.store import SessionInfo


async def begin_chat(
    runtime: Runtime,
    arguments: argparse.Namespace,
    *,
    report: Callable[[str], None],
    on_switch: Callable[[Switch], None],
) -> Chat:
    """The chat that goes on, or a new one. A session that another model answered is switched, in the open."""
    session = await runtime.session_to_continue()
    model, found = await runtime.first_model(session)
    # A repository may have .mcp.json for other programs: in a one-shot it is worth a word only to who wants tools.
    offered = runtime.untrusted() if runtime.tools or not has_prompt(arguments) else []
    for line in [*([str(found)] if found is not None else []), *offered, *await runtime.open_tools()]:
        report(line)
    if session is not None and arguments.fork:
        session = await _forked(runtime, session)
    former = _former(runtime, session, model)
    if session is None or former is None:
        return runtime.chat(session=session.id if session else None, model=model)
    chat = runtime.chat(session=session.id, model=former)
    await chat.open()
    switch = await chat.switch(model)
    if switch is not None and switch.losses and arguments.strict:
        await chat.switch(former)
        await chat.close()
        raise would_lose(switch_line(switch))
    if switch is not None:
        on_switch(switch)
    return chat


async def _forked(runtime: Runtime, session: SessionInfo) -> SessionInfo:
    journal = await fork(runtime.store, session.id)
    await journal.close()
    return msgspec.structs.replace(session, id=journal.session)


def _former(runtime: Runtime, session: SessionInfo | None, model: Model) -> Model | None:
    """Who answered in the session until now, if that is another and is still known."""
    if session is None or not session.model or session.model in _names(model):
        return None
    try:
        return runtime.model(session.model)
    except SegueError:
        return None


def _names(model: Model) -> list[str]:
    match model:
        case str():
            return [model]
        case Route():
            return [model.name]
        case _:
            return [route.name for route in model.routes]
